"""The paths that the gateway forwards to endpoints: the engines' inference paths, and those of a setting.

Engines serve inference and management (load an adapter, sleep, update weights, run any RPC) on one port, so
this is an allowlist: paths that an engine adds later are not forwarded until they are listed. Paths are
compared byte by byte and forwarded unchanged. A path that a server might rewrite before it routes (escapes,
dot segments, double slashes, parameters) is rejected, because two servers could interpret it differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headgate.requests.refusal import Refusal

SETTING: Final = "clients.forwarded_paths"

OPENAI: Final = (
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/images/variations",
    "/v1/moderations",
    "/v1/responses",
)
ANTHROPIC: Final = ("/v1/messages", "/v1/messages/count_tokens")
VLLM: Final = (
    "/classify",
    "/detokenize",
    "/generative_scoring",
    "/inference/v1/generate",
    "/invocations",
    "/pooling",
    "/rerank",
    "/score",
    "/tokenize",
    "/v1/chat/completions/batch",
    "/v1/chat/completions/render",
    "/v1/completions/render",
    "/v1/rerank",
    "/v1/score",
    "/v2/embed",
    "/v2/rerank",
)
SGLANG: Final = ("/encode", "/generate", "/v1/classify", "/v1/detokenize", "/v1/tokenize")
"""Those that vLLM does not have."""
TRTLLM: Final = ("/v1/videos/generations",)
"""Those that neither of them has."""

SESSIONS: Final = frozenset(("/v1/realtime",))
"""Those at which clients open WebSockets. Those that the setting adds may have them, too."""

DEFAULT: Final = frozenset(OPENAI + ANTHROPIC + VLLM + SGLANG + TRTLLM)

WITHOUT_OUTPUT: Final = frozenset(
    (
        "/classify",
        "/detokenize",
        "/encode",
        "/pooling",
        "/rerank",
        "/score",
        "/tokenize",
        "/v1/chat/completions/render",
        "/v1/classify",
        "/v1/completions/render",
        "/v1/detokenize",
        "/v1/embeddings",
        "/v1/messages/count_tokens",
        "/v1/moderations",
        "/v1/rerank",
        "/v1/score",
        "/v1/tokenize",
        "/v2/embed",
        "/v2/rerank",
    )
)
"""Those whose responses need no tokens to be generated."""

OWN: Final = frozenset(("/healthz", "/readyz", "/health", "/v1/models", "/models"))
"""Paths of the gateway itself, for GET and HEAD."""
OWN_BELOW: Final = ("/v1/models/", "/models/")

_SEGMENT: Final = r"/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]+"
_PLAIN: Final = re.compile(rf"/|(?:{_SEGMENT})+")
"""The root, or segments that no server rewrites (RFC 3986, 3.3): not empty, no dot segments, no escapes, no
`;`."""
_SHOWN_CHARACTERS: Final = 256


class Paths:
    """The default paths, and those of the setting: each is a path, or ends with `/*`."""

    def __init__(self, added: Iterable[str] = ()) -> None:
        added = tuple(added)
        self._exact = DEFAULT.union(path for path in added if not path.endswith("/*"))
        self._prefixes = tuple(path[:-1] for path in added if path.endswith("/*"))

    def refusal(self, path: str) -> Refusal | None:
        """Why a path, as the client wrote it and without its query, is not forwarded."""
        if self._is_forwarded(path):
            return None
        if not _PLAIN.fullmatch(path):
            return Refusal.bad_request(
                f"servers could interpret the path {_shown(path)} differently: send it without escapes (%), "
                "empty or dot segments, a trailing slash, backslashes and semicolons",
                code="ambiguous_path",
            )
        if _is_own(path):
            return self.wrong_method("POST", path)
        meant = self._meant(path)
        fix = f"did you mean {meant}? To" if meant else "the gateway forwards inference paths only; to"
        return Refusal.bad_request(
            f"the path {_shown(path)} is not forwarded: {fix} forward it, "
            f"add {path[:_SHOWN_CHARACTERS]} to {SETTING}",
            code="path_not_forwarded",
            status=404,
        )

    def _meant(self, path: str) -> str:
        """What a client with a wrong base URL, or without the plural, meant; empty if none is close."""
        bare = path
        while bare.startswith("/v1/"):
            bare = bare[3:]
        for each in ("/v1" + bare, bare, "/v1" + bare + "s"):
            if each in self._exact or each in OWN:
                return each
        return ""

    def has_sessions(self, path: str) -> bool:
        """Whether WebSockets may be opened at a path."""
        return path in SESSIONS or (path not in DEFAULT and not _is_own(path) and self._is_forwarded(path))

    def methods(self, path: str) -> bytes:
        """The methods allowed on a path, for the header `allow`; empty if the path does not exist."""
        is_posted = self._is_forwarded(path)
        if _is_own(path):
            return b"GET, HEAD, OPTIONS, POST" if is_posted else b"GET, HEAD, OPTIONS"
        return b"OPTIONS, POST" if is_posted else b""

    def wrong_method(self, method: str, path: str) -> Refusal:
        """For an existing path with a method that is not allowed."""
        methods = self.methods(path)
        wanted = "GET" if methods.startswith(b"GET") else "POST"
        return Refusal.method_not_allowed(
            f"{method} is not allowed at {_shown(path)}: send {wanted}", methods
        )

    def _is_forwarded(self, path: str) -> bool:
        if path in self._exact:
            return True
        return bool(self._prefixes) and path.startswith(self._prefixes) and _PLAIN.fullmatch(path) is not None


def problems(paths: Iterable[str]) -> list[str]:
    """The errors in entries of the setting that cannot match."""
    return [
        f"{path[:_SHOWN_CHARACTERS]!r}: a path such as /v1/decisions, or a prefix such as /team-a/*, is "
        "needed, without escapes, a query, and empty or dot segments"
        for path in paths
        if path != "/*" and ("*" in path.removesuffix("/*") or not _PLAIN.fullmatch(path.removesuffix("/*")))
    ]


def _is_own(path: str) -> bool:
    return path in OWN or path.startswith(OWN_BELOW)


def _shown(path: str) -> str:
    return repr(path[:_SHOWN_CHARACTERS])
