"""Times, sizes and figures as people read them, on a terminal, a page and a card alike."""

LONGEST = 400


def format_duration(seconds: float | None) -> str:
    """`0.4 s`, `2 min 03 s` or `1 h 02 min`; `–` if unknown."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def format_clock(seconds: float) -> str:
    """`0:33`, `12:05` or `3:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_rate(rate: float) -> str:
    """`1,234`, `85`, `3.2` or `0.25`: about two significant digits."""
    if rate >= 10:
        return f"{rate:,.0f}"
    return f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def format_bytes(count: int) -> str:
    """`512 B`, `1.5 KB` or `20.0 GB`."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_number(value: float | None, digits: int = 2, sign: str = "") -> str | None:
    """With this many decimals; sign: `+` for a difference. None stays None."""
    return None if value is None else f"{value:{sign}.{digits}f}".replace("-", "−")


def format_range(
    low: float | None, high: float | None, digits: int = 2, sign: str = ""
) -> str | None:
    """Both ends of an interval; None if one is unknown."""
    if low is None or high is None:
        return None
    return f"{low:{sign}.{digits}f} to {high:{sign}.{digits}f}".replace("-", "−")


def shorten(text: str | None, most: int = LONGEST) -> str:
    """The start of the text, with an ellipsis where some is left out; empty for None."""
    if text is None:
        return ""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
