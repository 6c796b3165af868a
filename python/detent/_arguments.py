"""Arguments are what the signature says, or a TypeError names them."""

from __future__ import annotations

TYPE_CHECKING = False  # but for type checkers
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


def _is_integer(value: Any) -> bool:
    import operator

    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool) and not hasattr(value, "__len__")


def _is_path(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "__fspath__")


def is_listing(value: Any) -> bool:
    """Whether it can be iterated, and is no text."""
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes))


def _are_texts(value: Any) -> bool:
    is_kept = is_listing(value) and not hasattr(value, "__next__")  # iterators give their names once
    return is_kept and all(isinstance(entry, str) for entry in value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or (hasattr(value, "dtype") and str(value.dtype) == "bool" and not value.shape)


def _is_format(value: Any) -> bool:
    return isinstance(value, (str, int)) or type(value).__module__ == "detent._formats"  # of integers the libraries say more


def _are_formats(value: Any) -> bool:
    return is_listing(value) and not hasattr(value, "__next__") and all(_is_format(entry) for entry in value)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", _is_truth),
    "int": ("an integer", _is_integer),
    "float": ("a number", _is_number),
    "str": ("str", lambda value: isinstance(value, str)),
    "Path": ("a path", _is_path),
    "Sequence[str]": ("a list of names", _are_texts),
    "FormatLike": ('a format, such as "int8" or detent.Format("int8")', _is_format),
    "Sequence[FormatLike]": ('a list of formats, such as ["int8", "int4"]', _are_formats),
}


def _said(value: Any, kinds: list[str]) -> str:
    """What was given: of a list the entry that does not fit."""
    entry = next((kind[len("Sequence[") : -1] for kind in kinds if kind.startswith("Sequence[")), None)
    if entry is None or not is_listing(value) or hasattr(value, "__next__"):
        return type(value).__name__
    wrong = next((type(part).__name__ for part in value if not _KINDS[entry][1](part)), "nothing")
    return f"{type(value).__name__} of {wrong}"


def checked_argument(name: str, value: Any, annotation: str) -> Any:
    """`value`, numpy's truth values and integers as Python's. What has another annotation than these is as it is."""
    kinds = annotation.split(" | ")
    if any(kind not in _KINDS for kind in kinds):
        return value
    found = next((kind for kind in kinds if _KINDS[kind][1](value)), None)
    if found is None:
        expected = " or ".join(_KINDS[kind][0] for kind in kinds if kind != "None")
        raise TypeError(f"{name}: got {_said(value, kinds)}, expected {expected}")
    if found == "bool":
        return bool(value)
    if found == "int" and not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}: got {value}, expected an integer of 64 bits")
    return int(value) if found == "int" else value


def natural(name: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"{name}: got {value}, expected at least 0")
    return value


def listed(name: str, value: Any, expected: str) -> list[Any]:
    if not is_listing(value) or not (entries := list(value)):
        raise TypeError(f"{name}: got {type(value).__name__}, expected {expected}")
    return entries


def _refuse_option(function: Any, name: str, known: Sequence[str]) -> None:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    hint = f": did you mean '{near[0]}'?" if near else ""
    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument '{name}'{hint}")


def checked(function: Function) -> Function:
    """The function, which looks at its arguments first."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_any = bool(code.co_flags & 0x08)  # CO_VARKEYWORDS
    annotations = function.__annotations__

    def call(*args: Any, **options: Any) -> Any:
        given = [
            checked_argument(name, value, annotations.get(name, ""))
            for name, value in zip(names, args, strict=False)
        ]
        if not takes_any and any(name not in known for name in options):
            _refuse_option(function, next(name for name in options if name not in known), known)
        options = {name: checked_argument(name, value, annotations.get(name, "")) for name, value in options.items()}
        return function(*given, *args[len(names) :], **options)

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(call, name, getattr(function, name))
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]
