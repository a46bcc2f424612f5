"""The look of the report page: light and dark, on a phone and on a desk."""

# Red, green and blue of each colour; cells of the confusion matrix are painted with `right` and
# `wrong` at up to `MOST_SHADE`, on which `ink` stays readable (WCAG's 4.5 to 1).
LIGHT = {
    "page": (246, 247, 249),
    "card": (255, 255, 255),
    "ink": (27, 31, 36),
    "soft": (89, 99, 110),
    "edge": (218, 223, 229),
    "accent": (32, 90, 190),
    "right": (46, 160, 110),
    "wrong": (226, 108, 60),
    "alarm": (165, 40, 30),
}
DARK = {
    "page": (15, 18, 22),
    "card": (25, 29, 35),
    "ink": (230, 234, 239),
    "soft": (152, 162, 174),
    "edge": (52, 59, 68),
    "accent": (122, 170, 255),
    "right": (46, 160, 110),
    "wrong": (214, 96, 50),
    "alarm": (255, 138, 122),
}
MOST_SHADE = 0.55
LEAST_SHADE = 0.08


def shade(share: float) -> float:
    """The opacity of a cell that holds this share of its row; 0 for an empty one."""
    return LEAST_SHADE + share * (MOST_SHADE - LEAST_SHADE) if share else 0.0


def stylesheet() -> str:
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}\n{RULES}"
    )


def _variables(colours: dict[str, tuple[int, int, int]]) -> str:
    return "".join(f"--{name}:{r} {g} {b};" for name, (r, g, b) in colours.items())


RULES = """
*{box-sizing:border-box}
body{margin:0;background:rgb(var(--page));color:rgb(var(--ink));
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  -webkit-text-size-adjust:100%}
main{max-width:1060px;margin:0 auto;padding:24px 20px 56px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h1 span{color:rgb(var(--soft));font-weight:400}
h2{font-size:1.12rem;margin:0 0 12px}
h3{font-size:.92rem;margin:0 0 4px;font-weight:600;display:flex;justify-content:space-between;gap:8px}
h3 b{font-variant-numeric:tabular-nums;font-weight:600}
p{margin:0 0 10px;overflow-wrap:anywhere}
a{color:rgb(var(--accent))}
section{background:rgb(var(--card));border:1px solid rgb(var(--edge));border-radius:12px;
  padding:18px 20px;margin:16px 0}
section>:last-child{margin-bottom:0}
.soft{color:rgb(var(--soft))}
.small{font-size:.87rem}
.caution,.alarm{border-left:4px solid rgb(var(--wrong));padding:10px 14px;margin:16px 0 0;
  background:rgb(var(--card));border-radius:0 8px 8px 0}
.alarm{border-color:rgb(var(--alarm));color:rgb(var(--alarm));font-weight:600}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0 0}
.tile{background:rgb(var(--card));border:1px solid rgb(var(--edge));border-radius:12px;
  padding:12px 14px;min-width:0}
.tile b{display:block;font-size:1.25rem;line-height:1.3;font-weight:600;white-space:nowrap;
  font-variant-numeric:tabular-nums}
.tile span{color:rgb(var(--soft));font-size:.87rem;overflow-wrap:anywhere}
.tile.first{background:rgb(var(--accent));border-color:rgb(var(--accent));color:rgb(var(--card))}
.tile.first span{color:inherit}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,280px),1fr));gap:18px 24px;
  margin-bottom:12px}
svg{display:block;width:100%;height:auto;max-width:460px}
svg .grid{stroke:rgb(var(--edge));stroke-width:1}
svg .tick{fill:rgb(var(--soft));font-size:11.5px;font-variant-numeric:tabular-nums}
svg .line{fill:none;stroke:rgb(var(--accent));stroke-width:2;stroke-linejoin:round}
svg .line.beside{stroke:rgb(var(--soft));stroke-dasharray:6 4}
svg .dot{fill:rgb(var(--accent))}
svg .dot.kept{fill:rgb(var(--card));stroke:rgb(var(--accent));stroke-width:2.5}
svg .marker{stroke:rgb(var(--soft));stroke-width:1;stroke-dasharray:3 3}
.wide{overflow-x:auto;margin-bottom:12px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.93rem}
th,td{padding:5px 10px;text-align:left;vertical-align:top;border-bottom:1px solid rgb(var(--edge))}
thead th{color:rgb(var(--soft));font-weight:600;vertical-align:bottom}
tbody th{font-weight:500}
tbody tr:last-child>*{border-bottom:0}
td.number,th.number{text-align:right;white-space:nowrap}
tr.baseline>*{color:rgb(var(--soft))}
tr.kept>*{font-weight:700;background:rgb(var(--accent)/.1)}
.badge{font-size:.78rem;font-weight:600;color:rgb(var(--accent));white-space:nowrap;margin-left:6px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:20px 32px}
.facts table{width:100%}
.facts th{color:rgb(var(--soft));font-weight:400;width:40%}
.facts td{overflow-wrap:anywhere}
.matrix{border-collapse:separate;border-spacing:2px}
.matrix th,.matrix td{border:0}
.matrix tbody th{position:sticky;left:0;background:rgb(var(--card));text-align:right;white-space:nowrap;
  max-width:170px;overflow:hidden;text-overflow:ellipsis}
.matrix thead th{text-align:center}
.matrix .upright{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;max-height:150px;
  overflow:hidden;text-overflow:ellipsis;text-align:left;padding:8px 2px;margin:0 auto}
.matrix td{text-align:center;min-width:34px;border-radius:5px}
.matrix td.wrong{background:rgb(var(--wrong)/var(--shade))}
.matrix td.right{background:rgb(var(--right)/var(--shade))}
.matrix td small{display:block;font-size:.78rem;line-height:1.15}
.matrix td:empty{background:rgb(var(--edge)/.35)}
.matrix.dense{font-size:.78rem;border-spacing:1px}
.matrix.dense th,.matrix.dense td{padding:2px 3px}
.matrix.dense td{min-width:24px;border-radius:3px}
.matrix.dense .upright{padding:4px 0}
.hard{list-style:none;margin:0;padding:0}
.hard>li{padding:12px 0;border-top:1px solid rgb(var(--edge))}
.hard>li:first-child{border-top:0;padding-top:0}
.verdict{display:flex;flex-wrap:wrap;gap:2px 18px;margin:0 0 4px;font-size:.9rem}
.verdict>span{overflow-wrap:anywhere;min-width:0}
.verdict .loss{margin-left:auto;color:rgb(var(--soft));font-variant-numeric:tabular-nums}
.text{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
details>summary{cursor:pointer;overflow-wrap:anywhere}
details[open]>summary{margin-bottom:8px}
summary .open{color:rgb(var(--accent));white-space:nowrap}
details[open]>summary .start,details[open]>summary .open{display:none}
details:not([open])>summary .close{display:none}
.words{display:flex;flex-wrap:wrap;gap:4px 8px;margin:0}
.words span{overflow-wrap:anywhere}
.words .miss{background:rgb(var(--wrong)/.22);border-radius:6px;padding:0 6px}
.words .miss small{display:block;line-height:1.3;margin-bottom:3px}
@media (max-width:560px){main{padding:16px 12px 40px}section{padding:14px 14px}
  h1{font-size:1.4rem}.tiles{grid-template-columns:1fr 1fr;gap:8px}.tile{padding:10px 12px}
  .tile b{font-size:1.1rem}.tile.first{grid-column:1/-1}.verdict .loss{margin-left:0}
  table{font-size:.87rem}th,td{padding:5px 6px}.matrix tbody th{max-width:110px}}
@media print{body{background:none}section,.tile{break-inside:avoid}}
"""
