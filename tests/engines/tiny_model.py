"""Makes a tiny model that real engines load: `python tiny_model.py DIRECTORY`, with the engine's own Python.

It talks nonsense, always the same: 13 MB of random weights, an adapter, and a tokenizer that was trained on
this repository's own text. Needs transformers, tokenizers and torch.
"""

import sys
from pathlib import Path

SPECIAL = ["<unk>", "<s>", "</s>"]
CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def make(directory):
    """Writes configuration, weights and tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    texts = [path.read_text() for path in sorted(Path(__file__).parents[2].glob("docs/*.md"))]
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )
    wrapped.chat_template = CHAT
    wrapped.save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(wrapped),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(directory)
    make_adapter(Path(directory) / "adapter", config)


def make_adapter(directory, config, rank=8):
    """An adapter of the model, in the subdirectory "adapter": as random as the model is."""
    import json

    import torch
    from safetensors.torch import save_file

    directory.mkdir()
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": ["q_proj"]}
    settings |= {"task_type": "CAUSAL_LM", "bias": "none", "base_model_name_or_path": str(directory.parent)}
    (directory / "adapter_config.json").write_text(json.dumps(settings))
    size = config.hidden_size
    tensors = {}
    for layer in range(config.num_hidden_layers):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"] = torch.randn(rank, size)
        tensors[f"{name}.lora_B.weight"] = torch.randn(size, rank)
    save_file(tensors, directory / "adapter_model.safetensors")


if __name__ == "__main__":
    make(sys.argv[1])
