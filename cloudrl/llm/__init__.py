"""The language side of the world: a state becomes a prompt, a reply becomes an action.

    from cloudrl.llm.parse import parse
    from cloudrl.llm.prompt import messages, render

    text = render(sim, world=0)  # what the model reads
    parsed = parse(reply, resources=6)  # parsed.code, parsed.action

docs/llm-contract.md says what both promise.
"""
