"""Tabs of the dashboard: each module has `build(folders)`, called inside `gr.Tabs()`; it lays out one `gr.Tab`."""
