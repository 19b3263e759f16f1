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
RUDMAN = Source(
    "Rudman et al. 2022",
    "Rudman, Gillman, Rayne & Eickhoff 2022, 'IsoScore: Measuring the Uniformity of Embedding Space Utilization', "
    "Findings of ACL 2022, arXiv:2108.07344",
)
ROY = Source(
    "Roy & Vetterli 2007",
    "Roy & Vetterli 2007, 'The effective rank: A measure of effective dimensionality', EUSIPCO 2007",
)
CSORDAS = Source(
    "Csordás et al. 2025",
    "Csordás, Manning & Potts 2025, 'Do Language Models Use Their Depth Efficiently?', NeurIPS 2025, arXiv:2505.13898",
)
GARRIDO = Source(
    "Garrido et al. 2023",
    "Garrido, Balestriero, Najman & LeCun 2023, 'RankMe: Assessing the Downstream Performance of Pretrained "
    "Self-Supervised Representations by Their Rank', ICML 2023, arXiv:2210.02885",
)
GAO = Source(
    "Gao et al. 2017",
    "Gao, Trautmann, Yu, Santhanam, Ryu, Shenoy & Ganguli 2017, 'A theory of multineuronal dimensionality, dynamics "
    "and measurement', bioRxiv 214262",
)
RUDELSON = Source(
    "Rudelson & Vershynin 2007",
    "Rudelson & Vershynin 2007, 'Sampling from large matrices: An approach through geometric functional analysis', "
    "Journal of the ACM 54(4):21, arXiv:math/0503442",
)
STRINGER = Source(
    "Stringer et al. 2019",
    "Stringer, Pachitariu, Steinmetz, Carandini & Harris 2019, 'High-dimensional geometry of population responses in "
    "visual cortex', Nature 571:361–365",
)
KORNBLITH = Source(
    "Kornblith et al. 2019",
    "Kornblith, Norouzi, Lee & Hinton 2019, 'Similarity of Neural Network Representations Revisited', ICML 2019, "
    "arXiv:1905.00414",
)
MURPHY = Source(
    "Murphy et al. 2024",
    "Murphy, Zylberberg & Fyshe 2024, 'Correcting Biased Centered Kernel Alignment Measures in Biological and "
    "Artificial Neural Networks', ICLR 2024 workshop Re-Align, arXiv:2405.01012",
)
SONG = Source(
    "Song et al. 2012",
    "Song, Smola, Gretton, Bedo & Borgwardt 2012, 'Feature Selection via Dependence Maximization', Journal of Machine "
    "Learning Research 13:1393–1434",
)
HUH = Source(
    "Huh et al. 2024",
    "Huh, Cheung, Wang & Isola 2024, 'The Platonic Representation Hypothesis', ICML 2024, arXiv:2405.07987",
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
SUN = Source(
    "Sun et al. 2024",
    "Sun, Chen, Kolter & Liu 2024, 'Massive Activations in Large Language Models', COLM 2024, arXiv:2402.17762",
)
KOVALEVA = Source(
    "Kovaleva et al. 2021",
    "Kovaleva, Kulshreshtha, Rogers & Rumshisky 2021, 'BERT Busters: Outlier Dimensions that Disrupt Transformers', "
    "Findings of ACL 2021, arXiv:2105.06990",
)
QUEIPO = Source(
    "Queipo-de-Llano et al. 2025",
    "Queipo-de-Llano et al. 2025, on attention sinks and compression valleys, arXiv:2510.06477",
)
GIRALDO = Source(
    "Giraldo et al. 2014",
    "Sanchez Giraldo, Rao & Principe 2014, 'Measures of Entropy from Data Using Infinitely Divisible Kernels', IEEE "
    "Transactions on Information Theory 61(1), arXiv:1211.2459",
)
SKEAN = Source(
    "Skean et al. 2025",
    "Skean et al. 2025, 'Layer by Layer: Uncovering Hidden Representations in Language Models', ICML 2025, "
    "arXiv:2502.02013",
)
EXPLORER = Source(
    "attention-encodings explorer",
    "RoBERTa attention-encodings explorer: cosine, distance and rank of a token's state against the vocabulary",
)
PEDREGOSA = Source(
    "Pedregosa et al. 2011",
    "Pedregosa et al. 2011, 'Scikit-learn: Machine Learning in Python', Journal of Machine Learning Research "
    "12:2825–2830: its list of English stop words",
)
LINEAR = Source(
    "Razzhigaev et al. 2024, linear",
    "Razzhigaev, Mikhalchuk, Goncharova, Gerasimenko, Oseledets, Dimitrov & Kuznetsov 2024, 'Your Transformer is "
    "Secretly Linear', ACL 2024, arXiv:2405.12250",
)
DIN = Source(
    "Din et al. 2024",
    "Din, Karidi, Choshen & Geva 2024, 'Jump to Conclusions: Short-Cutting Transformers with Linear Transformations', "
    "LREC-COLING 2024, arXiv:2303.09435",
)
WILLIAMS = Source(
    "Williams et al. 2021",
    "Williams, Kunz, Kornblith & Linderman 2021, 'Generalized Shape Metrics on Neural Representations', NeurIPS 2021, "
    "arXiv:2110.14739",
)
RAGHU = Source(
    "Raghu et al. 2017",
    "Raghu, Gilmer, Yosinski & Sohl-Dickstein 2017, 'SVCCA: Singular Vector Canonical Correlation Analysis for Deep "
    "Learning Dynamics and Interpretability', NeurIPS 2017, arXiv:1706.05806",
)
MEN = Source(
    "Men et al. 2024",
    "Men, Xu, Zhang, Wang, Lin, Lu, Han & Chen 2024, 'ShortGPT: Layers in Large Language Models are More "
    "Redundant Than You Expect', arXiv:2403.03853",
)
AUBRY = Source(
    "Aubry et al. 2025",
    "Aubry, Meng, Sugolov & Papyan 2025, 'Transformer Block Coupling and its Correlation with Generalization in LLMs', "
    "ICLR 2025, arXiv:2407.07810",
)
HEIMERSHEIM = Source(
    "Heimersheim & Turner 2023",
    "Heimersheim & Turner 2023, 'Residual stream norms grow exponentially over the forward pass', Alignment Forum",
)
AGRAWAL = Source(
    "Agrawal et al. 2022",
    "Agrawal, Mondal, Ghosh & Richards 2022, 'α-ReQ: Assessing Representation Quality in Self-Supervised Learning by "
    "measuring eigenspectrum decay', NeurIPS 2022",
)
LI = Source(
    "Li et al. 2025",
    "Li, Agrawal, Ghosh et al. 2025, 'Tracing the Representation Geometry of Language Models from Pretraining to "
    "Post-training', NeurIPS 2025, arXiv:2509.23024",
)
JIANG = Source(
    "Jiang et al. 2026",
    "Jiang, Yang & Tam 2026, 'Layer-wise Representation Dynamics: An Empirical Investigation Across Embedders and Base "
    "LLMs', arXiv:2605.12714",
)
PAGE = Source(
    "Page 1993",
    "Page 1993, 'Average entropy of a subsystem', Physical Review Letters 71:1291–1294, arXiv:gr-qc/9305007",
)
HOSSEINI = Source(
    "Hosseini & Fedorenko 2023",
    "Hosseini & Fedorenko 2023, 'Large language models implicitly learn to straighten neural sentence trajectories to "
    "construct a predictive representation of natural language', NeurIPS 2023, arXiv:2311.04930",
)
GROMOV = Source(
    "Gromov et al. 2024",
    "Gromov, Tirumala, Shapourian, Glorioso & Roberts 2024, 'The Unreasonable Ineffectiveness of the Deeper Layers', "
    "arXiv:2403.17887",
)
GLIELMO = Source(
    "Glielmo et al. 2022",
    "Glielmo, Zeni, Cheng, Csányi & Laio 2022, 'Ranking the information content of distance measures', PNAS Nexus "
    "1(2):pgac039, arXiv:2104.15079",
)
ACEVEDO = Source(
    "Acevedo et al. 2025",
    "Acevedo et al. 2025, on the most semantically informative layers of text and image models by information "
    "imbalance, arXiv:2505.17101",
)
RUPPIK = Source(
    "Ruppik et al. 2025",
    "Ruppik et al. 2025, 'Less is More: Local Intrinsic Dimensions of Contextual Language Models', NeurIPS 2025, "
    "arXiv:2506.01034",
)
MERCHANT = Source(
    "Merchant et al. 2020",
    "Merchant, Rahimtoroghi, Pavlick & Tenney 2020, 'What Happens To BERT Embeddings During Fine-tuning?', "
    "BlackboxNLP, arXiv:2004.14448",
)
