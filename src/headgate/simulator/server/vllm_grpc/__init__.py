"""vLLM's gRPC service, `vllm.grpc.engine.VllmEngine`, on the port that answers HTTP.

Connections that begin with HTTP/2's preface are passed on to a gRPC server behind it (`multiplexed`); its
handlers (`service`) ask the same engines as the handlers of HTTP. It needs grpcio and protobuf.
"""
