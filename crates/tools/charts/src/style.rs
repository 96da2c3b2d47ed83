//! Colours and type, light and dark. Contrast of every text is at least 4.5.

/// Styles of charts, within a page and in a file of their own.
pub(crate) const CHART: &str = "\
:root{--ground:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;\
--offered:#8b949e;--admitted:#0969da;--denied:#cf222e;--second:#bc4c00;--third:#8250df;--limit:#1a7f37}\
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9198a1;--rule:#3d444d;\
--offered:#8b949e;--admitted:#58a6ff;--denied:#ff7b72;--second:#f0883e;--third:#bc8cff;--limit:#3fb950}}\
svg{font:12px system-ui,sans-serif}svg text{fill:var(--soft)}svg .title{fill:var(--ink);font-weight:600;font-size:14px}\
.axis{stroke:var(--rule);stroke-width:1;fill:none}.line{fill:none;stroke-width:1.75;stroke-linejoin:round}\
.area{stroke:none;fill-opacity:.28}.mark{stroke-dasharray:5 4;stroke-width:1.5;fill:none}\
.offered{stroke:var(--offered);fill:var(--offered)}.admitted{stroke:var(--admitted);fill:var(--admitted)}\
.denied{stroke:var(--denied);fill:var(--denied)}.second{stroke:var(--second);fill:var(--second)}\
.third{stroke:var(--third);fill:var(--third)}.limit{stroke:var(--limit);fill:var(--limit)}\
.dot,.bar,.key{stroke:none}.line,.mark{fill:none}.area{stroke:none}";

/// Styles of the page around charts.
pub(crate) const PAGE: &str = "\
*{box-sizing:border-box}html{color-scheme:light dark}\
body{margin:0 auto;padding:2rem 1rem 4rem;max-width:60rem;background:var(--ground);color:var(--ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI','PingFang SC','Microsoft YaHei',sans-serif}\
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .25rem}h2{font-size:1.25rem;margin:2.5rem 0 .5rem}\
h3{font-size:1rem;margin:1.5rem 0 .25rem}p{margin:.25rem 0}.soft{color:var(--soft)}\
figure{margin:1rem 0;padding:1rem;border:1px solid var(--rule);border-radius:8px;overflow-x:auto}\
figcaption{font-weight:600;margin-bottom:.5rem}svg{display:block;width:100%;height:auto;min-width:30rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.875rem}\
th,td{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--rule);vertical-align:top}\
th{color:var(--soft);font-weight:600}td.number,th.number{text-align:right}td{overflow-wrap:anywhere}\
details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}\
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin:1rem 0}\
dl div{border:1px solid var(--rule);border-radius:8px;padding:.6rem .8rem}dt{color:var(--soft);font-size:.8rem}\
dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}.note{border-left:3px solid var(--second);padding-left:.75rem}\
@media print{body{max-width:none}figure{break-inside:avoid}}";
