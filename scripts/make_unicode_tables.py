#!/usr/bin/env python3
"""Writes src/detent/tokenizers/unicode_tables.inc: what Hugging Face's tokenizers take each character for.

Its parts (oniguruma, the regex crate, Rust's char, two crates of older Unicode versions) disagree on characters that
are new, so each is asked about every code point. Needs the Python packages tokenizers and regex.
  scripts/make_unicode_tables.py > src/detent/tokenizers/unicode_tables.inc
"""
import sys
import unicodedata

import regex
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
SCRIPTS = "Han Hiragana Katakana Hangul Latin Cyrillic Greek Thai Arabic Hebrew Devanagari".split()


def chunks():
    for begin in range(0, len(CODES), 2048):
        yield CODES[begin : begin + 2048]


def removed(splitter):
    """What a pre-tokenizer that removes its matches leaves out."""
    left = set()
    for chunk in chunks():
        for piece, _ in splitter.pre_tokenize_str("".join(map(chr, chunk))):
            left.update(map(ord, piece))
    return set(CODES) - left


def pattern(text):
    return removed(pre_tokenizers.Split(Regex(text), "removed"))


def isolated(splitter):
    """What is cut out from between letters."""
    found = set()
    for chunk in chunks():
        text = "".join("a" + chr(code) + "a" for code in chunk)
        for _, (begin, end) in splitter.pre_tokenize_str(text):
            if end - begin == 1 and begin % 3 == 1:
                found.add(ord(text[begin]))
    return found


def word_characters():
    r"""What \w of the regex crate matches."""
    found = set()
    for chunk in chunks():
        text = " ".join("a" + chr(code) + "a" for code in chunk)
        for _, (begin, end) in pre_tokenizers.Whitespace().pre_tokenize_str(text):
            if end - begin == 3 and begin % 4 == 0:
                found.add(ord(text[begin + 1]))
    return found


def vanishing(normalizer):
    return {code for code in CODES if normalizer.normalize_str("a" + chr(code) + "a") == "aa"}


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def ranges(codes):
    result = []
    for code in sorted(codes):
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def write(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = ""
    for row in rows:
        text = ("{" + ", ".join(row) + "}, ") if isinstance(row, list) else row + ", "
        if len(line) + len(text) > 150:
            print("  " + line.rstrip())
            line = ""
        line += text
    print("  " + line.rstrip() + "\n};\n")


def write_ranges(name, codes):
    write(name, "CodeRange", [[f"0x{a:X}", f"0x{b:X}"] for a, b in ranges(codes)])


def write_categories():
    of_code = {}
    for index, category in enumerate(CATEGORIES):
        for code in pattern(r"\p{%s}" % category):
            of_code[code] = index
    rows, begin = [], 0
    for code in range(1, 0x110001):
        if code == 0x110000 or of_code.get(code) != of_code.get(begin):
            if begin in of_code and CATEGORIES[of_code[begin]] != "Cn":
                rows.append([f"0x{begin:X}", f"0x{code - 1:X}", "k" + CATEGORIES[of_code[begin]]])
            begin = code
    write("kCategories", "CategoryRange", rows)


def maps(normalizer):
    results = {code: normalizer.normalize_str(chr(code)) for code in CODES}
    return {code: text for code, text in results.items() if text != chr(code)}


def write_maps(name, table):
    """Code, then its image, a 0 after each."""
    write(name, "char32_t", [", ".join([f"0x{code:X}", *(f"0x{ord(c):X}" for c in text), "0"]) for code, text in table.items()])


def write_normal_forms():
    canonical = maps(normalizers.NFD())
    compatible = maps(normalizers.NFKD())
    canonical = {code: text for code, text in canonical.items() if not 0xAC00 <= code <= 0xD7A3}
    compatible = {code: text for code, text in compatible.items() if canonical.get(code) != text and not 0xAC00 <= code <= 0xD7A3}
    write_maps("kCanonical", canonical)
    write_maps("kCompatible", compatible)
    nfc, pairs = normalizers.NFC(), []
    for code in canonical:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and nfc.normalize_str("".join(chr(int(part, 16)) for part in parts)) == chr(code):
            pairs.append([f"0x{parts[0]}", f"0x{parts[1]}", f"0x{code:X}"])
    write("kCompositions", "Composition", pairs)
    nfd, classes = normalizers.NFD(), {}
    for code in CODES:
        combining = unicodedata.combining(chr(code))
        # A mark of another class before it moves only if the normalizer knows this one's.
        other = "\u0334" if combining != 1 else "\u0301"
        texts = [chr(code) + other, other + chr(code)]
        if combining and len({nfd.normalize_str(text) for text in texts}) == 1:
            classes[code] = combining
    rows = []
    for begin, end in ranges(classes):
        for code in range(begin, end + 1):
            if rows and rows[-1][2] == classes[code] and rows[-1][1] == code - 1:
                rows[-1][1] = code
            else:
                rows.append([code, code, classes[code]])
    write("kCombiningClasses", "ClassRange", [[f"0x{a:X}", f"0x{b:X}", str(c)] for a, b, c in rows])


def write_graphemes():
    for name in "Control Extend SpacingMark Prepend L V T LV LVT".split():
        write_ranges("kGrapheme" + name, [code for code in CODES if regex.match(r"\p{GCB=%s}" % name, chr(code))])
    write_ranges("kPictographic", [code for code in CODES if regex.match(r"\p{Extended_Pictographic}", chr(code))])


print(f"// Written by scripts/make_unicode_tables.py out of tokenizers {tokenizers.__version__}.\n")
write_categories()
write_ranges("kPatternWord", pattern(r"\w"))
write_ranges("kWord", word_characters())
write_ranges("kSpace", removed(pre_tokenizers.WhitespaceSplit()))
assert pattern(r"\s") == removed(pre_tokenizers.WhitespaceSplit())
write_ranges("kNumeric", isolated(pre_tokenizers.Digits(True)))
write_ranges("kPunctuation", isolated(pre_tokenizers.Punctuation("isolated")))
write_ranges("kControl", vanishing(bert(clean_text=True)) - {0, 0xFFFD})
write_ranges("kNonspacingMark", vanishing(bert(strip_accents=True)))
write_ranges("kCombiningMark", vanishing(normalizers.StripAccents()))
for script in SCRIPTS:
    write_ranges("kScript" + script, pattern(r"\p{%s}" % script))
write_maps("kLowercase", maps(normalizers.Lowercase()))
write_normal_forms()
write_graphemes()
sys.stdout.flush()
