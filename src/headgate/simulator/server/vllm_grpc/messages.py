"""The messages of vLLM's `vllm_engine.proto`, as far as the simulated engine reads and writes them.

What a client sends besides is passed over, as protobuf does.
"""

from headgate.simulator.server.vllm_grpc.descriptors import Method, add_file, classes_of

PACKAGE = "vllm.grpc.engine"
SERVICE = f"{PACKAGE}.VllmEngine"

_MESSAGES = {
    "SamplingParams": (
        "optional uint32 max_tokens 8",
        "uint32 min_tokens 9",
        "repeated string stop 10",
        "bool ignore_eos 14",
        "uint32 n 15",
        "optional int32 seed 24",
    ),
    "TokenizedInput": ("string original_text 1", "repeated uint32 input_ids 2"),
    "GenerateRequest": (
        "string request_id 1",
        "oneof.input TokenizedInput tokenized 2",
        "oneof.input string text 3",
        "SamplingParams sampling_params 4",
        "bool stream 5",
    ),
    "GenerateStreamChunk": (
        "repeated uint32 token_ids 1",
        "uint32 prompt_tokens 2",
        "uint32 completion_tokens 3",
        "uint32 cached_tokens 4",
    ),
    "GenerateComplete": (
        "repeated uint32 output_ids 1",
        "string finish_reason 2",
        "uint32 prompt_tokens 3",
        "uint32 completion_tokens 4",
        "uint32 cached_tokens 5",
    ),
    "GenerateResponse": (
        "string request_id 1",
        "oneof.response GenerateStreamChunk chunk 2",
        "oneof.response GenerateComplete complete 3",
    ),
    "AbortRequest": ("repeated string request_ids 1",),
    "AbortResponse": (),
    "HealthCheckRequest": (),
    "HealthCheckResponse": ("bool healthy 1", "string message 2"),
    "GetModelInfoRequest": (),
    "GetModelInfoResponse": (
        "string model_path 1",
        "bool is_generation 2",
        "uint32 max_context_length 3",
        "uint32 vocab_size 4",
        "bool supports_vision 5",
    ),
    "GetServerInfoRequest": (),
    "GetServerInfoResponse": (
        "uint32 active_requests 1",
        "bool is_paused 2",
        "double last_receive_timestamp 3",
        "double uptime_seconds 4",
        "string server_type 5",
    ),
}
_METHODS = (
    Method("Generate", "GenerateRequest", "GenerateResponse", "answers"),
    *(
        Method(name, f"{name}Request", f"{name}Response")
        for name in ("Abort", "HealthCheck", "GetModelInfo", "GetServerInfo")
    ),
)

add_file("vllm_engine.proto", PACKAGE, _MESSAGES, {"VllmEngine": _METHODS})
CLASSES = classes_of(PACKAGE, _MESSAGES)
"""The message classes by name."""
