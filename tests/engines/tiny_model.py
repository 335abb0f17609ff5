"""Makes a tiny model that real engines load: `python tiny_model.py DIRECTORY`, with the engine's own Python.

It talks nonsense, always the same: 12 MB of random weights, and a tokenizer that was trained on this
repository's own text. Needs transformers, tokenizers and torch.
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


if __name__ == "__main__":
    make(sys.argv[1])
