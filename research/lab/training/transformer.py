"""A decoder-only transformer: RMSNorm, rotary positions, SwiGLU, tied embedding."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.training.run_list import ModelSize

NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0
INITIAL_SPREAD = 0.02


class Norm(nn.Module):
    """Root-mean-square norm with a gain per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.rms_norm(hidden, (hidden.shape[-1],), self.gain, NORM_EPSILON)


class Block(nn.Module):
    """Causal attention and a gated feed-forward layer, each added to its input."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.attention_norm, self.feed_norm = Norm(size.width), Norm(size.width)
        self.queries_keys_values = nn.Linear(size.width, 3 * size.width, bias=False)
        self.attention_out = nn.Linear(size.width, size.width, bias=False)
        self.feed_in = nn.Linear(size.width, 2 * size.feed_forward, bias=False)
        self.feed_out = nn.Linear(size.feed_forward, size.width, bias=False)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        projected = self.queries_keys_values(self.attention_norm(hidden))
        projected = projected.view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            rotate(queries, cosine, sine), rotate(keys, cosine, sine), values, is_causal=True
        )
        hidden = hidden + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        gate, value = self.feed_in(self.feed_norm(hidden)).chunk(2, -1)
        return hidden + self.feed_out(functional.silu(gate) * value)


def rotate(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return vectors (..., length, channels) turned by their positions' angles (length, channels / 2)."""
    first, second = vectors.chunk(2, -1)
    cosine, sine = cosine.to(vectors.dtype), sine.to(vectors.dtype)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class Transformer(nn.Module):
    """Tokens (batch, length) and the tokens that follow them -> mean cross-entropy in nats/token."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = Norm(size.width)
        channels = size.width // size.heads
        frequencies = ROTARY_BASE ** -(torch.arange(0, channels, 2).float() / channels)
        angles = torch.outer(torch.arange(size.context).float(), frequencies)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What is added to the residual stream starts smaller, the more layers add to it.
                out = name.endswith(("attention_out.weight", "feed_out.weight"))
                spread = INITIAL_SPREAD / math.sqrt(2 * size.layers) if out else INITIAL_SPREAD
                nn.init.normal_(parameter, std=spread)

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, self.cosine, self.sine)
        logits = functional.linear(self.norm(hidden), self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), following.flatten())
