// measure: how fast, why, and compared with whom.
//
// Owns: work (bytes and multiply-adds of a plan's calls), the profiler, the roofline probe, statistics of paired
//       samples, records and the page that shows them.
// Never: the path of a product: nothing outside apps/ includes this folder. No process is started here.
// In -> out: a loaded Engine, timings, records as JSON -> tables, JSON, a trace, one HTML page.
#pragma once
