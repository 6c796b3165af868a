#!/usr/bin/env python3
"""Writes tokenizers.json and chat_templates.json: what Hugging Face's libraries make of small tokenizers and templates.

Needs the Python packages tokenizers, transformers and sentencepiece.
  tests/data/tokenizers/make_cases.py FOLDER
"""
import base64
import io
import json
import pathlib
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P
from tokenizers import processors as PP, trainers as T
from transformers.utils.chat_template_utils import _compile_jinja_template

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "", "a", " ", "  two  spaces ", "The catch makes a dial stop at certain positions.", "don't DON'T we'LL I'm they'Re 'ſ",
    "12345 3.14 ١٢٣ Ⅷ½²", "größer, schöner; L’été à l’œuf ÀÉ", "Быстрая лиса ΣΊΣΥΦΟΣ İstanbul", "数字１２３と仮名カタカナ。한국어 각각",
    "cafe\u0301 e\u0323\u0307 \u1100\u1161\u11a8 Å ﬁ ㎏ ﷺ", "👨‍👩‍👧 👍🏽 🇩🇪 ©️ x\u200dy", "tabs\tand\r\nlines\n\n  end \n", "\u00a0nbsp\u2003em\u3000wide\ufeff\u0085",
    "\x00\x01\x7f\ufffd\ufffe\U0010ffff", "<s>special</s> [MASK]  <sep> [CLS]", "for (int i = 0; i < n; ++i) { sum += x[i]; }  // loop",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the theme, The lathe; code codes", "▁the▁ Ġthe ##ing <0x41>", "नमस्ते क्षत्रिय สวัสดี",
]
BROKEN = [b"\xff", b"a\xc3", b"\xe2\x82x", b"\xed\xa0\x80", b"\xf0\x9f\x98 \xf4\x90\x80\x80", b"ok \xc0\xaf\xe0\x80 ok"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = TEXTS + ["the network of the numbers and the formats in the other", "quantize calibrate evaluate export execute the network"]
results = []


def add(name, tokenizer):
    cases = []
    for raw in [text.encode() for text in TEXTS] + BROKEN:
        text = raw.decode("utf-8", errors="replace")
        ids = tokenizer.encode(text).ids
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append([base64.b64encode(raw).decode(), ids, plain, tokenizer.decode(ids), tokenizer.decode(ids, skip_special_tokens=False)])
    results.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "cases": cases})


def bpe(name, pre, normalizer=None, decoder=None, post=None, added=(), special=("<unk>", "<s>", "</s>"), size=420, alphabet=(), options=None, **model):
    tokenizer = Tokenizer(M.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    trainer = T.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), special_tokens=list(special), show_progress=False, **(options or {}))
    tokenizer.train_from_iterator(WORDS, trainer)
    if post:
        tokenizer.post_processor = post
    tokenizer.add_tokens(list(added))
    add(name, tokenizer)


def between(first, last):
    return PP.TemplateProcessing(single=f"{first} $A {last}", pair="$A $B", special_tokens=[(first, 1), (last, 2)])


ALPHABET = P.ByteLevel.alphabet()
BARE = P.ByteLevel(add_prefix_space=False, use_regex=False)
SPECIAL = [AddedToken("<sep>", special=True, lstrip=True, rstrip=True), AddedToken("code", single_word=True), AddedToken("Straße")]
LLAMA = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
bpe("bytes, prefix, roberta", P.ByteLevel(), decoder=D.ByteLevel(), alphabet=ALPHABET, added=SPECIAL, post=PP.RobertaProcessing(("</s>", 2), ("<s>", 1)))
bpe("bytes, llama 3", P.Sequence([P.Split(Regex(LLAMA3), "isolated"), BARE]), N.NFC(), D.ByteLevel(), PP.Sequence([PP.ByteLevel(trim_offsets=False), between("<s>", "</s>")]), alphabet=ALPHABET, ignore_merges=True)
bpe("bytes, digits, nfkc", P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]), N.Sequence([N.NFKC(), N.Lowercase()]), D.ByteLevel(), added=SPECIAL, alphabet=ALPHABET)
for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
    bpe("split, " + behavior, P.Sequence([P.Split(Regex(r"[\s\p{P}]"), behavior), P.Punctuation(behavior), P.Digits(False), BARE]), N.Sequence([N.Strip(), N.NFKD(), N.StripAccents()]), D.ByteLevel(), alphabet=ALPHABET, size=300)
bpe("characters, suffix", P.WhitespaceSplit(), N.Nmt(), D.BPEDecoder(), unk_token="<unk>", end_of_word_suffix="</w>", size=300, options={"end_of_word_suffix": "</w>"})
bpe("characters, prefix, fused", P.Whitespace(), N.NFD(), D.WordPiece(), unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="##", size=300, options={"continuing_subword_prefix": "##", "limit_alphabet": 40})
bpe("sentencepiece", None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), LLAMA, between("<s>", "</s>"), SPECIAL[:1], ["<unk>", "<s>", "</s>", *BYTES], unk_token="<unk>", fuse_unk=True, byte_fallback=True, options={"limit_alphabet": 60, "max_token_length": 8})
bpe("metaspace, first", P.Metaspace(prepend_scheme="first"), N.Strip(), D.Metaspace(prepend_scheme="first"), added=SPECIAL, unk_token="<unk>", size=300)
bpe("fixed length, ctc", P.FixedLength(3), decoder=D.CTC("<s>", "e"), unk_token="<unk>", size=200, options={"limit_alphabet": 60})

for name, pre in {"unigram": P.Metaspace(), "unigram, words": P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="never")])}.items():
    tokenizer = Tokenizer(M.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase()]), pre, D.Metaspace()
    tokenizer.train_from_iterator(WORDS[4:9] + WORDS[-5:], T.UnigramTrainer(vocab_size=150, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = between("<s>", "</s>")
    add(name, tokenizer)
PIECES = ["▁the", "▁a", "▁cat", "s", "▁sat", "on", "▁", "t", "h", "e", "c", "a", "o", "n", "é", "▁é", "ing", "!", "?", ".", "本", "▁数", "i", ",", "d"]
DEBERTA = {
    "deberta, words": ([N.Lowercase(), N.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), N.NFC(), N.Strip(left=False, right=True)], [P.Punctuation("isolated")]),
    "deberta": ([N.Strip(), N.Replace(Regex(" {2,}"), " ")], []),
}
for name, (steps, pre) in DEBERTA.items():
    tokenizer = Tokenizer(M.Unigram([(t, 0.0) for t in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")] + [(t, -1 - 0.375 * i) for i, t in enumerate(PIECES)], 3, False))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = N.Sequence(steps), P.Sequence(pre + [P.Metaspace()]), D.Metaspace()
    tokenizer.post_processor = PP.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    tokenizer.add_special_tokens([AddedToken("[CLS]", special=True), AddedToken("[SEP]", special=True), AddedToken("[MASK]", special=True, lstrip=True)])
    add(name, tokenizer)
for name, normalizer in {"wordpiece": N.BertNormalizer(), "wordpiece, cased": N.BertNormalizer(lowercase=False)}.items():
    tokenizer = Tokenizer(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, P.BertPreTokenizer(), D.WordPiece()
    tokenizer.train_from_iterator(WORDS, T.WordPieceTrainer(vocab_size=260, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = PP.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    add(name, tokenizer)
tokenizer = Tokenizer(M.WordLevel({"the": 0, "[UNK]": 1, "code": 2}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = P.CharDelimiterSplit(" ")
add("words", tokenizer)

models = []
for kind, options in {"unigram": {}, "bpe": {"byte_fallback": True, "remove_extra_whitespaces": False}}.items():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([word for word in WORDS if word and "\0" not in word]), model_writer=model, model_type=kind, vocab_size=500 if kind == "bpe" else 220, normalization_rule_name="identity", hard_vocab_limit=False, character_coverage=0.98, minloglevel=2, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    texts = [text for text in TEXTS if "\0" not in text and "<s>" not in text]
    models.append({"name": kind, "model": base64.b64encode(model.getvalue()).decode(), "cases": [[text, processor.encode(text), processor.decode(processor.encode(text))] for text in texts]})

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hello there! \n"}, {"role": "assistant", "content": "Hi 😀"}, {"role": "user", "content": 'Ünïcode "quotes"'}]
TEMPLATES = [
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message.content | trim + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set first = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}\n{%- for m in rest %}\n  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}\n    {{- raise_exception('roles') }}\n  {%- endif %}\n  {{- '[' ~ (first if loop.first and first is defined else 'none') ~ '] ' ~ m.content.strip() }}{{ eos_token if m.role == 'assistant' }}\n{%- endfor %}",
    "{{ 1+2*3-4//2%3 }} {{ 7/2 }} {{ -7//2 }} {{ -7%3 }} {{ 'a'~1~none~true }}", "a\n  {% if true %}\n  x\n  {% endif %}\nb", "a  {%- if true -%}  x  {%- endif -%}  b",
    "{% for i in range(5) if i is odd %}{{loop.index}}:{{i}}/{{loop.length}}{{ ',' if not loop.last }}{% else %}none{% endfor %}{% for i in [] %}x{% else %}none{% endfor %}",
    "{% set ns = namespace(x=1) %}{% for i in [1,2,3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{x}}{% endfor %}{{x}}",
    "{{ [1,'a',none,true,2.5,{'k':'v\\'s'}] }} {{ {'a':[1]}|tojson }} {{ {'a':[1,{'b':'é\"\\n'}],'c':{}}|tojson(indent=2) }}",
    "{{ 'Hello World'[::-1] }} {{ 'héllo'[1:3] }} {{ [1,2,3][-2:] }} {{ [1,2,3][5:] }} {{'abc'[-1]}} {{ 'abcdef'[4:1:-2] }}",
    "{{ '  x  '|trim }}|{{ 'a,b'.split(',') }}|{{ 'A b'.lower() }}|{{ 'xay'.replace('a','b') }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x','c')) }}|{{'  a b '.split()}}|{{ 'a--b--c'.split('--',1)[-1] }}|{{ '..x.'.strip('.') }}",
    "{{ x is defined }} {{ messages is iterable }} {{ messages is string }} {{ 'a' in 'abc' }} {{ 'role' in messages[0] }} {{ 5 not in [1,2] }} {{ x|default('d') }} {{ ''|default('e', true) }} {{ none is none }}",
    "{{ messages|map(attribute='role')|join(', ') }} {{ messages|selectattr('role','equalto','user')|list|length }} {{ messages|rejectattr('role','equalto','user')|map(attribute='content')|first }}",
    "{% for k, v in {'a':1,'b':2}.items() %}{{k}}={{v}};{% endfor %} {% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if loop.index0 == 3 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "{# comment #}\nx\n{#- c -#}\n y {{- ' z ' -}} w\n", "{{ 1 if false }}|{{ (1 == 1.0) }}|{{ not 1 == 2 }}|{{ 3 > 2 and 2 > 1 or false }}{% set a %}block {{ 1 }}{% endset %}[{{ a }}]{%+ if true %} a{% endif +%}\n b",
    "{{ messages[0].content|length }} {{ 'u'|upper }} {{ 'abc def'|title }} {{ 'aBC'|capitalize }} {{ '12'|int + 1 }} {{ [3,1]|last }} {{ 'l1\nl2\n\nl3'|indent(2) }} {{ \"it's\" }} {{ {'a':1}.get('b') }} {{ messages[::-1][0].role }}",
    "{% macro say(m, before='[', after=']') %}{{ before ~ m.role ~ after }}{{ m.content|trim }}{% endmacro %}{% for m in messages %}{{ say(m) }} {{ say(m, '(', after=')')|length }}{% endfor %}",
    "{%- macro kind(t) -%}\n  {%- if t is string -%}text{%- elif t is iterable -%}{{ 'list of ' + kind(t[0]) }}{%- else -%}{{ t }}{%- endif -%}\n{%- endmacro -%}\n{{ kind('a') }} {{ kind([['a']]) }} {{ kind(7) }}",
    "{% set x = 1 %}{% macro f(a, b=x) %}{{ a is defined }}{{ a }}{{ b }}{{ x }}{{ y }}{% set x = 5 %}{{ x }}{% endmacro %}{% for y in [8, 9] %}{{ f() }}{{ f(a=2, b=3) }}{{ f('q', 4) }}{% endfor %}{{ x }}{% set ns = namespace(n=0) %}{% macro g() %}{% set ns.n = ns.n + 1 %}{% for i in range(3) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{{ g() }}{{ g() ~ ns.n }}",
]
VARIABLES = {"messages": MESSAGES, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
chats = [{"template": text, "text": _compile_jinja_template(text).render(**VARIABLES)} for text in TEMPLATES]
folder = pathlib.Path(sys.argv[1])
write = lambda name, value: (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
write("tokenizers.json", {"tokenizers": results, "models": models})
write("chat_templates.json", {"variables": VARIABLES, "templates": chats})
