"""200 strings that run a script where a page does not escape them, each for some place in a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

COUNT: Final = 200
ELEMENT: Final = "x-evil"  #: an element that only an unescaped string makes

_SCRIPTS: Final = (
    "<script>alert({n})</script>",
    "<img src=x onerror=alert({n})>",
    "<svg onload=alert({n})>",
    "<svg><script>alert({n})</script></svg>",
    "<svg><animate onbegin=alert({n}) attributeName=x dur=1s>",
    "<body onload=alert({n})>",
    "<details open ontoggle=alert({n})>",
    "<input autofocus onfocus=alert({n})>",
    "<iframe srcdoc='<script>alert({n})</script>'></iframe>",
    "<iframe src=javascript:alert({n})></iframe>",
    "<object data=javascript:alert({n})></object>",
    "<embed src=javascript:alert({n})>",
    "<a href=javascript:alert({n}) autofocus onfocus=alert({n})>x</a>",
    "<form action=javascript:alert({n})><button autofocus onfocus=alert({n})>x</button></form>",
    "<math href=javascript:alert({n})>x</math>",
    "<video><source onerror=alert({n})></video>",
    "<style>@import 'javascript:alert({n})'; *{{background:url(//evil.example/{n})}}</style>",
    "<link rel=stylesheet href=//evil.example/{n}.css>",
    "<meta http-equiv=refresh content='0;url=javascript:alert({n})'>",
    "<base href=//evil.example/{n}/>",
    "<x-evil onfocus=alert({n}) tabindex=1 autofocus>",
    "javascript:alert({n})",
    "{{{{7*{n}}}}}",
    "{{% for x in range({n}) %}}<x-evil>{{% endfor %}}",
    "${{alert({n})}}",
)
_CONTEXTS: Final = (
    "{script}",
    '"><x-evil>{script}',
    "'><x-evil>{script}",
    "</title></textarea></style></script><x-evil>{script}",
    "--><x-evil>{script}",
    "]]><x-evil>{script}",
    "\" autofocus onfocus=alert({n}) x='{script}",
    "&lt;x&gt;&quot;><x-evil>{script}",
)


def hostile_words(count: int = COUNT) -> Sequence[str]:
    """Return *count* different strings of printable characters, at most 128 each."""
    words = [
        context.format(n=number, script=script.format(n=number))
        for number, (script, context) in enumerate(
            (script, context) for script in _SCRIPTS for context in _CONTEXTS
        )
    ]
    return [word[:128].strip() for word in words[:count]]
