"""What the course measured at length, and keeps: sweeps over thousands of runs that a lesson has no time for.

One module a lesson, ``lesson_NN``, with its trial functions and the list ``MEASURED``; the results lie in
``results/``, a netCDF file each. A lesson shows the stored result and recomputes a part of it::

    from course.replicate import measured

    shares = measured("12.shares")
    found = shares.load()                    # xarray.Dataset, all of it
    again = shares.part(d=[4, 8])            # the first batch of these cells, computed now

``python -m course replicate`` prints the published figures that the course redoes beside ours, from the rows
in ``rows_NN``; ``--sweeps`` lists the stored sweeps, and ``--fresh 12.shares`` computes one anew.
"""

from course.replicate.stored import Measured, measured

__all__ = ["Measured", "measured"]
