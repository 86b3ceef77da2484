"""Show the constructors that equinox makes.

A subclass of `eqx.Module` is a dataclass without a decorator, so griffe, which reads source, sees
fields but no constructor. This extension of griffe writes it down; `mkdocs.yml` names it.
"""

from typing import Any

import griffe

FIELD = "equinox.field"
MADE = "dataclass"  # shown beside the name, as for a class with the decorator


class EquinoxFields(griffe.Extension):
    """Give each `eqx.Module` without an `__init__` the one that its fields make."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the package has been read."""
        classes(pkg)


def classes(within: griffe.Module | griffe.Class) -> None:
    """Visit all classes defined there."""
    for member in within.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            if isinstance(member, griffe.Class):
                add_constructor(member)
            classes(member)


def add_constructor(found: griffe.Class) -> None:
    """Write `__init__` down, unless the class or a parent has one or equinox makes none."""
    line = [*reversed(found.mro()), found]
    modules = {getattr(base, "canonical_path", base) for one in line for base in one.bases}
    written = any("__init__" in one.members and MADE not in one.labels for one in line)
    if "equinox.Module" not in modules or written:
        return
    parameters = {p.name: p for one in line for p in map(parameter, one.attributes.values()) if p}
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    init = griffe.Function(
        "__init__", parameters=griffe.Parameters(this, *parameters.values()), parent=found
    )
    found.set_member("__init__", init)
    found.labels.add(MADE)


def parameter(field: griffe.Attribute) -> griffe.Parameter | None:
    """What the constructor takes for a field; None for properties and values of the class."""
    kind = griffe.ParameterKind.positional_or_keyword
    if field.annotation is None or "property" in field.labels:
        return None
    if "class-attribute" in field.labels and "instance-attribute" not in field.labels:
        return None
    if str(field.annotation).startswith(("eqx.AbstractVar", "eqx.AbstractClassVar")):
        return None
    default = field.value
    if isinstance(default, griffe.ExprCall) and default.canonical_path == FIELD:
        given = {a.name: a.value for a in default.arguments if isinstance(a, griffe.ExprKeyword)}
        if str(given.get("init")) == "False":
            return None
        factory = given.get("default_factory")
        default = f"{factory}()" if factory else given.get("default")
    return griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=default)
