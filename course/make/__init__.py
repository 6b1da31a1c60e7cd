"""Making the notebooks: from one source a lesson to what learners and lecturers open."""
