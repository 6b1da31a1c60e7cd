"""What the tests of the lessons share."""

import ast

import pytest

from course.make.build import Folders
from course.make.notebook import from_source


@pytest.fixture(scope="module")
def lesson(request):
    """The functions that the solved source of lesson NN defines, for tests in test_lesson_NN.py."""
    number, namespace = request.path.stem[-2:], {"__name__": "lesson"}
    (source,) = Folders().sources([number])
    for cell in from_source(source, solved=True).cells:
        if cell.cell_type == "code":
            tree = ast.parse(cell.source)
            kept = ast.Import | ast.ImportFrom | ast.FunctionDef
            tree.body = [statement for statement in tree.body if isinstance(statement, kept)]
            exec(compile(tree, f"lesson {number}", "exec"), namespace)
    return namespace
