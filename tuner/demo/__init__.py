"""The bundled example, and a real Spark cluster on this machine with an auto-scaled stream."""
