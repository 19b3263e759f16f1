"""The works that definitions come from."""

from reporter.metrics.base import Source

LEE = Source(
    "Lee 2024",
    "Lee 2024, on the convergence of token states to the final layer of BERT-like encoders "
    "(definitions 1–5, assumption 1, table of rates)",
)
LUISTO = Source(
    "Luisto 2024",
    "Luisto 2024, thesis on the embedding spaces of BERT: token, position and type vectors, motion",
)
SHAPE_OF_LEARNING = Source(
    "Razzhigaev et al. 2024",
    "Razzhigaev, Mikhalchuk, Goncharova, Oseledets, Dimitrov & Kuznetsov 2024, 'The Shape of Learning: Anisotropy and "
    "Intrinsic Dimensions in Transformer-Based Models', Findings of EACL 2024, arXiv:2311.05928",
)
ETHAYARAJH = Source(
    "Ethayarajh 2019",
    "Ethayarajh 2019, 'How Contextual are Contextualized Word Representations?', EMNLP-IJCNLP 2019, arXiv:1909.00512",
)
TIMKEY = Source(
    "Timkey & van Schijndel 2021",
    "Timkey & van Schijndel 2021, 'All Bark and No Bite: Rogue Dimensions in Transformer Language Models Obscure "
    "Representational Quality', EMNLP 2021, arXiv:2109.04404",
)
FACCO = Source(
    "Facco et al. 2017",
    "Facco, d'Errico, Rodriguez & Laio 2017, 'Estimating the intrinsic dimension of datasets by a minimal neighborhood "
    "information', Scientific Reports 7:12140, arXiv:1803.06992",
)
DENTI = Source(
    "Denti et al. 2022",
    "Denti, Doimo, Laio & Mira 2022, 'The generalized ratios intrinsic dimension estimator', Scientific Reports "
    "12:20005, arXiv:2104.13832",
)
SALAZAR = Source(
    "Salazar et al. 2020",
    "Salazar, Liang, Nguyen & Kirchhoff 2020, 'Masked Language Model Scoring', ACL 2020, arXiv:1910.14659",
)
NOSTALGEBRAIST = Source(
    "nostalgebraist 2020",
    "nostalgebraist 2020, 'interpreting GPT: the logit lens', LessWrong",
)
BELROSE = Source(
    "Belrose et al. 2023",
    "Belrose, Furman, Smith, Halawi, Ostrovsky, McKinney, Biderman & Steinhardt 2023, 'Eliciting Latent Predictions "
    "from Transformers with the Tuned Lens', arXiv:2303.08112",
)
YAMAGIWA = Source(
    "Yamagiwa & Shimodaira 2024",
    "Yamagiwa & Shimodaira 2024, 'Norm of Mean Contextualized Embeddings Determines their Variance', "
    "arXiv:2409.11253 (COLING 2025)",
)
