"""A learner's first hour: JupyterLab opens where it should, cells run, sliders move, checks answer."""

import re

import pytest

from course import exercises
from course.start import handing_out, progress

pytestmark = pytest.mark.browser

WIDGET = "globalThis.jupyterapp?.shell.currentWidget"
IDLE = f"{WIDGET}?.context?.sessionContext?.session?.kernel?.status === 'idle'"
RUN = """() => Promise.race([
    jupyterapp.commands.execute('notebook:run-all-cells'),
    new Promise(resolve => setTimeout(resolve, 180000)),
])"""
CELLS = """() => jupyterapp.shell.currentWidget.content.widgets.map(cell => ({
    type: cell.model.type,
    source: cell.model.sharedModel.getSource(),
    count: cell.model.executionCount ?? null,
    outputs: cell.model.outputs?.toJSON() ?? [],
}))"""
OPEN_ALONE = """async path => {
    await jupyterapp.commands.execute('docmanager:save-all');  // or closing would ask about each
    await jupyterapp.commands.execute('application:close-all');
    await jupyterapp.commands.execute('docmanager:open', {path});
}"""
GO = """index => {
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    notebook.deselectAll();
    return notebook.scrollToItem(index);
}"""


def name(lessons, number: str) -> str:
    return next(path.name for path in lessons.glob(f"{number}_*.ipynb"))


def open_lesson(page, server: str, name: str) -> None:
    """Open a lesson alone: in the page as the test before left it, or in a new one."""
    if page.url == "about:blank":
        page.goto(server)
        page.wait_for_function(f"{WIDGET}?.context?.isReady", timeout=60_000)
    page.evaluate(OPEN_ALONE, f"my-lessons/{name}")
    page.wait_for_function(f"{WIDGET}?.context?.path === 'my-lessons/{name}' && {IDLE}", timeout=60_000)


def open_and_run(page, server: str, name: str) -> None:
    """Open a lesson, clear its stored outputs, and run it from top to bottom."""
    open_lesson(page, server, name)
    assert_every_figure_has_its_text(page)  # in a notebook that nobody has trusted yet
    page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    assert not any(cell["outputs"] for cell in page.evaluate(CELLS))
    page.evaluate(RUN)


def assert_ran_without_errors(page) -> None:
    code = [cell for cell in page.evaluate(CELLS) if cell["type"] == "code"]
    assert len(code) > 3
    for cell in code:
        for output in cell["outputs"]:
            assert output["output_type"] != "error", (cell["source"], output)
            assert output.get("name") != "stderr", (cell["source"], output)
    assert all(cell["count"] for cell in code), "not every cell has run to its end"
    assert sum(bool(cell["outputs"]) for cell in code) >= 3


def where(page, pattern: str) -> int:
    """Return the index of the first code cell whose source matches."""
    cells = page.evaluate(CELLS)
    return next(
        i for i, cell in enumerate(cells) if cell["type"] == "code" and re.search(pattern, cell["source"])
    )


def assert_every_figure_has_its_text(page) -> None:
    """What a screen reader is told about each figure of a lesson, stored or drawn just now."""
    cells = page.evaluate(CELLS)
    figures = {
        index: output["data"]["text/plain"]
        for index, cell in enumerate(cells)
        for output in cell["outputs"]
        if "<img" in "".join(output.get("data", {}).get("text/html", ""))
    }
    assert len(figures) >= 3
    for index, text in figures.items():
        page.evaluate(GO, index)
        image = page.locator(f".jp-Cell[data-windowed-list-index='{index}'] .jp-OutputArea-output img").first
        image.wait_for()
        assert image.get_attribute("alt") == "".join(text)
        shown = image.evaluate("image => image.decode().then(() => [image.width, image.naturalWidth])")
        assert 1.5 * shown[0] < shown[1]  # sharp on screens with more pixels


def assert_drawings_are_folded(page) -> None:
    """Cells that only draw show their picture, not their code."""
    folded = page.evaluate(
        f"""() => {WIDGET}.content.widgets.map(cell => [
            Boolean(cell.model.sharedModel.getMetadata('jupyter')?.source_hidden), Boolean(cell.inputHidden)
        ])"""
    )
    assert sum(wanted for wanted, _ in folded) >= 3
    assert all(wanted == is_folded for wanted, is_folded in folded)


def move_slider_and_see_the_picture_change(page) -> None:
    cells = page.evaluate(CELLS)
    views = "application/vnd.jupyter.widget-view+json"
    index = next(
        i for i, cell in enumerate(cells) if any(views in out.get("data", {}) for out in cell["outputs"])
    )
    page.evaluate(GO, index)
    output = page.locator(f".jp-Cell[data-windowed-list-index='{index}'] .jp-OutputArea-output").last
    picture, handle = output.locator("img").first, output.locator(".noUi-handle").first
    picture.wait_for()
    before, said = pixels(picture), picture.get_attribute("alt")
    handle.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    changed = f".jp-Cell[data-windowed-list-index='{index}'] .jp-OutputArea-output img"
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector)?.src !== before",
        arg=[changed, before["src"]],
    )
    after = pixels(picture)
    assert len(said.split()) >= 4
    assert picture.get_attribute("alt") != said  # it tells the new values
    assert after["width"] > 100
    assert after["data"] != before["data"]


def pixels(picture) -> dict:
    """Return what an image shows, as the browser has decoded it."""
    return picture.evaluate(
        """async image => {
            for (let src = null; src !== image.src; ) {  // a picture may be replaced while it is decoded
                src = image.src;
                try { await image.decode(); } catch (error) { if (src === image.src) throw error; }
            }
            const canvas = document.createElement('canvas');
            [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
            canvas.getContext('2d').drawImage(image, 0, 0);
            return {src: image.src, width: canvas.width, data: canvas.toDataURL()};
        }"""
    )


def answer(page, exercise: str, old: str, new: str) -> str:
    """Edit the exercise's cell and run on to its check, by keyboard; returns what the check printed."""
    index = where(page, rf'@exercise\("{exercise}"\)')
    source = page.evaluate(CELLS)[index]["source"]
    assert old in source
    page.evaluate(GO, index)
    page.evaluate("jupyterapp.commands.execute('notebook:enter-edit-mode')")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source.replace(old, new))
    checked = where(page, rf'^check\("{exercise}"')
    before = page.evaluate(CELLS)[checked]["count"]
    for _ in range(checked - index + 1):
        page.keyboard.press("Shift+Enter")
    cell = "jupyterapp.shell.currentWidget.content.widgets[index]"
    page.wait_for_function(
        f"([index, before]) => {cell}.model.executionCount > before", arg=[checked, before]
    )
    page.wait_for_function(IDLE)
    page.evaluate(GO, checked)
    return page.locator(f".jp-Cell[data-windowed-list-index='{checked}'] .jp-OutputArea").inner_text()


def edit(page, pattern: str, old: str, new: str) -> None:
    """Replace something in the first code cell that matches."""
    page.evaluate(
        """([index, from, to]) => {
            const model = jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel;
            model.setSource(model.getSource().replace(from, to));
        }""",
        [where(page, pattern), old, new],
    )


def output_in_view(page) -> str:
    """Return the text of the active cell's output, which must be where the learner sees it."""
    output = page.locator(".jp-Cell.jp-mod-active .jp-OutputArea")
    top, bottom = output.evaluate(
        "node => [node.getBoundingClientRect().top, node.getBoundingClientRect().bottom]"
    )
    assert 0 < (top + bottom) / 2 < 1000
    return output.inner_text()


def test_the_first_start(page, server, lessons, mine):
    start = name(lessons, "00")
    page.goto(server)  # as it is printed
    page.wait_for_function(f"{WIDGET}?.context?.path === 'my-lessons/{start}' && {IDLE}", timeout=60_000)
    picture = page.locator("img[alt^='Left: two clouds']")
    picture.wait_for()
    assert pixels(picture)["width"] > 500
    assert not page.evaluate(f"{WIDGET}.context.model.dirty")  # nobody has changed anything yet

    page.evaluate(GO, where(page, '^@exercise."00.2"'))
    page.evaluate("jupyterapp.commands.execute('notebook:run-cell')")
    page.wait_for_function(f"{WIDGET}.content.activeCell.model.executionCount === 1")
    page.wait_for_function(IDLE)
    assert "the cells above have not been run" in output_in_view(page)

    edit(page, '^@exercise."00.3"', "todo()", "return A.T @ (b - A @ w)")
    page.evaluate(RUN)
    said = output_in_view(page)
    assert "AssertionError" in said
    assert "exercise 00.3 is not right yet" in said
    edit(page, '^@exercise."00.3"', "return A.T @ (b - A @ w)", "return A.T @ (A @ w - b)")
    page.evaluate(RUN)
    assert_ran_without_errors(page)

    assert progress.recall(mine).states == {"00.3": "solved"}
    page.evaluate(GO, where(page, "^progress..$"))
    page.evaluate("jupyterapp.commands.execute('notebook:run-cell')")
    page.locator("td", has_text="1 of 5").wait_for()
    page.locator(".jp-OutputArea a", has_text="Logistic regression").click()
    page.wait_for_function(f"{WIDGET}?.context?.path === 'my-lessons/{name(lessons, '01')}' && {IDLE}")
    assert not page.evaluate(f"{WIDGET}.context.model.dirty")

    names = page.locator(".jp-DirListing-itemText").all()
    assert len(names) == len(list(lessons.glob("*.ipynb")))
    for each in names:  # all but the ending
        file = each.inner_text()
        shown = each.evaluate("node => node.clientWidth / node.scrollWidth")
        assert shown > len(file.removesuffix(".ipynb")) / len(file), file


def test_the_links_to_the_library_open(page, server, lessons):
    open_lesson(page, server, name(lessons, "01"))
    link = page.locator("a[href*='mini_attn']").last
    link.scroll_into_view_if_needed()
    link.click()
    page.wait_for_function(f"{WIDGET}?.context?.path.startsWith('mini_attn/') && {WIDGET}.context.isReady")
    assert "import" in page.evaluate(f"{WIDGET}.context.model.sharedModel.getSource()")


def test_lesson_01_opens_runs_and_answers(page, server, lessons, mine):
    open_and_run(page, server, name(lessons, "01"))
    assert_ran_without_errors(page)
    assert_every_figure_has_its_text(page)
    assert_drawings_are_folded(page)
    assert page.locator(".jp-Dialog, .Toastify__toast").count() == 0  # no news, no questions
    move_slider_and_see_the_picture_change(page)

    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    given, saved = ((folder / name(lessons, "01")).read_bytes() for folder in (lessons, mine))
    assert saved != given
    assert handing_out.digest(saved) == handing_out.digest(given)  # run, it still counts as untouched

    upside_down = "return 1 / loss + eta * mu**2 * (1 - n * loss / 2) ** 2 * t"
    wrong = answer(page, "01.3", "todo()", upside_down)
    assert "✗ 01.3" in wrong
    assert any(known.message in " ".join(wrong.split()) for known in exercises.find("01.3").misconceptions)
    right = answer(page, "01.3", upside_down, upside_down.replace("return ", "return 1 / (") + ")")
    assert "✓ 01.3" in right
    assert "✗" not in right
