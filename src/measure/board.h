// The board: all records as one HTML page that needs nothing else, no network and no script to be read.
//
// The page is a function of the records alone: no clock, no path, no name of the machine that made it. Text from
// records is escaped wherever it goes. Plots are board_plots.h's, reading records board_data.h's.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "measure/board_data.h"

namespace quern::measure::board {

// Errors: out_of_memory.
Result<std::string> board_html(const std::vector<Record>& records);

}  // namespace quern::measure::board
