"""AWS: the backend that answers calls, and one declarative description per service."""
