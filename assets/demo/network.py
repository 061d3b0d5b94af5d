"""The network in PyTorch, for training. Parameters carry the released names; decoding with a state is not its work."""

import torch
from torch import nn
from torch.nn import functional as F

from fused import ConvSilu, Mixed, Situ
from kda import HEAD, DeltaRule
from quantise import fake
from shape import Shape


def rms_norm(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def linear(inside: int, outside: int, size: float = 1.0) -> nn.Linear:
    """Without bias, uniform, of standard deviation size / sqrt(inside)."""
    layer = nn.Linear(inside, outside, bias=False)
    bound = size * (3 / inside) ** 0.5
    nn.init.uniform_(layer.weight, -bound, bound)
    return layer


class Norm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class Glu(nn.Module):
    """down(SiTU(gate x, up x)): the dense network and the shared expert."""

    def __init__(self, s: Shape, inner: int):
        super().__init__()
        self.s = s
        self.gate_proj, self.up_proj = linear(s.hidden, inner), linear(s.hidden, inner)
        self.down_proj = linear(inner, s.hidden, 0.5)

    def forward(self, x):
        both = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight]))
        return self.down_proj(Situ.apply(both, self.s.beta, self.s.linear_beta))


class Conv(nn.Module):
    """Causal depthwise convolution, one filter a channel; the last tap is the present."""

    def __init__(self, width: int, taps: int):
        super().__init__()
        weight = 0.1 * torch.randn(width, 1, taps)
        weight[:, 0, -1] += 0.7
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return ConvSilu.apply(x, self.weight[:, 0].T)


class Kda(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        assert s.kda_dim == HEAD, "kda.c is compiled for another head width"
        self.s, width = s, s.kda_heads * s.kda_dim
        for name in "qkv":
            setattr(self, f"{name}_proj", linear(s.hidden, width))
            setattr(self, f"{name}_conv1d", Conv(width, s.taps))
        self.f_a_proj, self.f_b_proj = linear(s.hidden, s.kda_dim), linear(s.kda_dim, width)
        self.b_proj, self.g_proj = linear(s.hidden, s.kda_heads), linear(s.hidden, width)
        self.o_proj = linear(width, s.hidden, 0.5)
        self.o_norm = Norm(s.kda_dim, s.eps)
        self.A_log = nn.Parameter(torch.linspace(0, 0.7, s.kda_heads))
        self.dt_bias = nn.Parameter(torch.linspace(-6, 0, s.kda_dim).repeat(s.kda_heads))

    def forward(self, x):
        s = self.s
        batch, length, _ = x.shape
        split = lambda y: y.view(batch, length, s.kda_heads, s.kda_dim).transpose(1, 2)
        q, k, v = (split(getattr(self, f"{n}_conv1d")(getattr(self, f"{n}_proj")(x))) for n in "qkv")
        unit = lambda y: y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6)
        z = split(self.f_b_proj(self.f_a_proj(x)) + self.dt_bias)
        decay = torch.exp(s.lower_bound * torch.sigmoid(torch.exp(self.A_log)[:, None, None] * z))
        beta = torch.sigmoid(self.b_proj(x)).transpose(1, 2)
        o = DeltaRule.apply(unit(q) * s.kda_dim**-0.5, unit(k), v, decay, beta)
        o = self.o_norm(o).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(o * torch.sigmoid(self.g_proj(x)))


class Mla(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.q_a_proj, self.q_a_layernorm = linear(s.hidden, s.q_rank), Norm(s.q_rank, s.mla_eps)
        self.q_b_proj = linear(s.q_rank, s.heads * (s.nope + s.rope))
        self.kv_a_proj_with_mqa = linear(s.hidden, s.kv_rank + s.rope)
        self.kv_a_layernorm = Norm(s.kv_rank, s.mla_eps)
        self.kv_b_proj = linear(s.kv_rank, s.heads * (s.nope + s.v_dim))
        self.g_proj, self.o_proj = linear(s.hidden, s.heads * s.v_dim), linear(s.heads * s.v_dim, s.hidden, 0.5)

    def forward(self, x):
        s = self.s
        batch, length, _ = x.shape
        split = lambda y: y.view(batch, length, s.heads, -1).transpose(1, 2)
        q = split(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))))
        latent, shared = self.kv_a_proj_with_mqa(x).split((s.kv_rank, s.rope), -1)
        k, v = split(self.kv_b_proj(self.kv_a_layernorm(latent))).split((s.nope, s.v_dim), -1)
        k = torch.cat([k, shared[:, None].expand(-1, s.heads, -1, -1)], -1)
        # Values as wide as keys: the fast form of PyTorch asks for it. Half the time of the other one.
        v = F.pad(v, (0, s.nope + s.rope - s.v_dim))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(s.nope + s.rope) ** -0.5)[..., : s.v_dim]
        return self.o_proj(o.transpose(1, 2).reshape(batch, length, -1) * torch.sigmoid(self.g_proj(x)))


class Router(nn.Module):
    """`gate`: its matrix, and the bias that only chooses. The bias is moved by load, not by a gradient."""

    def __init__(self, s: Shape):
        super().__init__()
        self.weight = linear(s.hidden, s.experts).weight
        self.register_buffer("e_score_correction_bias", torch.zeros(s.experts))
        self.register_buffer("load", torch.zeros(s.experts), persistent=False)
        self.s = s

    def forward(self, x):
        scores = torch.sigmoid(F.linear(x, self.weight))
        ids = (scores + self.e_score_correction_bias).topk(self.s.top_k, -1).indices
        chosen = scores.gather(-1, ids)
        self.load += torch.bincount(ids.flatten(), minlength=self.s.experts)
        return ids, chosen / (chosen.sum(-1, keepdim=True) + 1e-20)

    @torch.no_grad()
    def balance(self, speed: float) -> None:
        """Less loaded experts are chosen sooner from now on."""
        self.e_score_correction_bias += speed * torch.sign(1 - self.load / self.load.mean().clamp(min=1))
        self.load.zero_()


class LatentMoe(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s, self.quantised = s, False
        self.gate = Router(s)
        self.routed_expert_down_proj = linear(s.hidden, s.latent)
        self.routed_expert_up_proj = linear(s.latent, s.hidden, 0.5)
        self.routed_expert_norm = Norm(s.latent, s.eps)
        self.shared_experts = Glu(s, s.shared * s.inner)
        draw = lambda *shape: nn.Parameter((2 * torch.rand(shape) - 1) * (3 / shape[-1]) ** 0.5)
        self.w1, self.w3 = draw(s.experts, s.inner, s.latent), draw(s.experts, s.inner, s.latent)
        self.w2 = draw(s.experts, s.latent, s.inner)

    def forward(self, x):
        """x [N, E]. Tokens are sorted by expert, so that each expert is one small product."""
        s = self.s
        ids, weights = self.gate(x)
        order = ids.flatten().argsort()
        token = order // s.top_k
        counts = torch.bincount(ids.flatten(), minlength=s.experts).tolist()
        w1, w2, w3 = (fake(w) if self.quantised else w for w in (self.w1, self.w2, self.w3))
        rows = self.routed_expert_down_proj(x)[token].split(counts)
        both = torch.cat([w1, w3], 1)
        inner = torch.cat([r @ w.T for r, w in zip(rows, both)])
        inner = Situ.apply(inner, s.beta, s.linear_beta).split(counts)
        out = torch.cat([r @ w.T for r, w in zip(inner, w2)]) * weights.flatten()[order][:, None]
        routed = torch.zeros(len(x), s.latent).index_add(0, token, out)
        return self.routed_expert_up_proj(self.routed_expert_norm(routed)) + self.shared_experts(x)


class Mix(nn.Module):
    """The two vectors of one residual mix: a softmax over earlier blocks and the stream."""

    def __init__(self, s: Shape):
        super().__init__()
        self.norm, self.proj, self.eps = Norm(s.hidden, s.eps), nn.Linear(s.hidden, 1, bias=False), s.eps
        nn.init.zeros_(self.proj.weight)

    def forward(self, prefix, blocks):
        return Mixed.apply(self.norm.weight * self.proj.weight[0], self.eps, *blocks, prefix)


class Layer(nn.Module):
    def __init__(self, s: Shape, index: int):
        super().__init__()
        self.boundary = index % s.block == 0
        self.input_layernorm, self.post_attention_layernorm = Norm(s.hidden, s.eps), Norm(s.hidden, s.eps)
        self.self_attention_res, self.mlp_res = Mix(s), Mix(s)
        self.self_attn = Mla(s) if index + 1 in s.mla else Kda(s)
        if index < s.dense_layers:
            self.mlp = Glu(s, s.dense_inner)
        else:
            self.block_sparse_moe = LatentMoe(s)

    def forward(self, prefix, blocks):
        h = self.self_attention_res(prefix, blocks) if blocks else prefix
        if self.boundary:
            blocks.append(prefix)
        attended = self.self_attn(self.input_layernorm(h))
        prefix = attended if self.boundary else prefix + attended
        x = self.post_attention_layernorm(self.mlp_res(prefix, blocks))
        if hasattr(self, "mlp"):
            return prefix + self.mlp(x)
        return prefix + self.block_sparse_moe(x.flatten(0, 1)).view(x.shape)


class Network(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(Layer(s, i) for i in range(s.layers))
        self.output_attn_res, self.norm = Mix(s), Norm(s.hidden, s.eps)
        self.lm_head = linear(s.hidden, s.vocab, 0.1)

    def forward(self, ids, wanted):
        """ids [B, T], wanted [B, T] true where the next token is asked for -> logits [wanted, V]."""
        h, blocks = self.embed_tokens(ids), []
        for layer in self.layers:
            h = layer(h, blocks)
        return self.lm_head(self.norm(self.output_attn_res(h, blocks)[wanted]))

    def moes(self) -> list[LatentMoe]:
        return [layer.block_sparse_moe for layer in self.layers if hasattr(layer, "block_sparse_moe")]
