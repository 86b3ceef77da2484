"""Figures and pages from plain records."""

from ._figure import draw_corrections as draw_corrections
from ._figure import draw_curves as draw_curves
from ._figure import draw_slice as draw_slice
from ._page import write_page as write_page
