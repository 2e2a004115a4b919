"""The text side of ferry: tokenising, previewing, making models and data, generating.

Thin over Hugging Face tokenizers and transformers. Run as `python -m ferry_tools COMMAND`.
"""
