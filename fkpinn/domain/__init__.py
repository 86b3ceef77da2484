"""Shapes: signed distance, normals, named boundary parts, uniform points."""

from ._ball import Ball as Ball
from ._base import AbstractDomain as AbstractDomain
from ._base import BoundaryDraw as BoundaryDraw
from ._base import Circle as Circle
from ._base import Hull as Hull
from ._base import InteriorDraw as InteriorDraw
from ._base import Mixture as Mixture
from ._base import Segment as Segment
from ._base import frozen as frozen
from ._base import known_domain as known_domain
from ._box import Box as Box
from ._box import Interval as Interval
from ._csg import Difference as Difference
from ._csg import Intersection as Intersection
from ._csg import Union as Union
from ._factor import inverse_shares as inverse_shares
from ._halfspace import HalfSpace as HalfSpace
from ._polygon import Polygon as Polygon
from ._polygon import RegularPolygon as RegularPolygon
from ._shapes import Shapes as Shapes
from ._space import Space as Space
