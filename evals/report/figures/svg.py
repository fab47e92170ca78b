"""matplotlib's SVG as an element that a page with a strict policy can hold and style.

Inline styles become attributes, which the policy lets pass; colours become classes, which follow light and dark; ids,
metadata and everything else that two figures in one page would fight over goes.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from evals.report.figures.colours import ROLES

_SVG = "{http://www.w3.org/2000/svg}"
_ATTRIBUTES = {
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "opacity",
    "fill-opacity",
    "stroke-opacity",
    "text-anchor",
    "font-size",
    "font-weight",
}


def inline(document: str, description: str) -> str:
    """The `<svg>` element of a document that matplotlib wrote."""
    root = ET.fromstring(document)  # noqa: S314 - matplotlib's own, and it escaped every label
    size = root.get("viewBox", "0 0 1 1")
    drawn = ET.Element("svg", {"class": "figure", "viewBox": size, "role": "img", "aria-label": description})
    for element in root.iter():
        if element.tag in (f"{_SVG}path", f"{_SVG}text") and element.get("style") != "fill: none":
            drawn.append(_plain(element))
    return ET.tostring(drawn, encoding="unicode", short_empty_elements=True)


def _plain(element: ET.Element) -> ET.Element:
    found = ET.Element(element.tag.removeprefix(_SVG))
    for name in ("d", "x", "y"):
        if value := element.get(name):
            found.set(name, " ".join(value.split()))
    classes = []
    for declaration in (element.get("style") or "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name in ("fill", "stroke") and value in ROLES:
            classes.append(f"{name}-{ROLES[value]}")
        elif name in _ATTRIBUTES:
            found.set(name, value)
        elif name == "font":
            _font(found, value)
    if classes:
        found.set("class", " ".join(classes))
    found.text = element.text
    return found


def _font(found: ET.Element, value: str) -> None:
    """The shorthand, as in "bold 12px 'DejaVu Sans'": the page chooses the family."""
    for word in value.split():
        if word.endswith("px"):
            found.set("font-size", word)
        elif word in ("bold", "700"):
            found.set("font-weight", "bold")
