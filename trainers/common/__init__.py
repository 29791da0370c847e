"""Parts that the trainers share."""
