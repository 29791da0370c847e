"""Parts of the GRPO trainer."""
