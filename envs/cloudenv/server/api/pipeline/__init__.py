"""`/api/pipelines`: the life of a pipeline, from POST to DELETE."""
