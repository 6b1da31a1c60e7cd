// When a cell stops Run All, JupyterLab stays where it was, often with no error in view. This goes to the cell.
// Written by hand in the form that JupyterLab loads; see package.json beside this folder.

const RUNS = new Set([
  'notebook:run-all-cells', 'notebook:run-all-above', 'notebook:run-all-below', 'notebook:restart-run-all'
]);

function stopped(cell) {
  const { model } = cell;
  const allowed = (model.getMetadata('tags') ?? []).includes('raises-exception');
  if (model.type !== 'code' || allowed) {
    return false;
  }
  return model.outputs.toJSON().some(output => output.output_type === 'error');
}

async function show(notebook) {
  const index = notebook.widgets.findIndex(stopped);
  if (index < 0) {
    return;
  }
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  await notebook.scrollToItem(index);
  const cell = notebook.widgets[index].node;
  const error = cell.querySelector('[data-mime-type="application/vnd.jupyter.error"]') ??
    cell.querySelector('.jp-OutputArea');
  error?.scrollIntoView({ block: 'center' });
}

const plugin = {
  id: 'mini-attn:show-what-stopped',
  autoStart: true,
  activate: app => {
    app.commands.commandExecuted.connect((_, { id, result }) => {
      const notebook = app.shell.currentWidget?.content;
      if (RUNS.has(id) && notebook?.widgets && notebook.scrollToItem) {
        result.then(() => show(notebook)).catch(() => {});
      }
    });
  }
};

window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB['mini-attn'] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin })
};
