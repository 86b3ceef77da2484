"""Figures and pages from plain records."""

from ._diagnose import draw_bounds as draw_bounds
from ._diagnose import draw_conditioning as draw_conditioning
from ._diagnose import draw_coverage as draw_coverage
from ._diagnose import draw_labels as draw_labels
from ._diagnose import draw_landscapes as draw_landscapes
from ._diagnose import draw_spectra as draw_spectra
from ._figure import draw_corrections as draw_corrections
from ._figure import draw_curves as draw_curves
from ._figure import draw_slice as draw_slice
from ._page import write_page as write_page
