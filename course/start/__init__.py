"""Starting to learn: the lessons in a folder of one's own, and JupyterLab open on the right one."""
