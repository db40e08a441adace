// The plots of the board, each one SVG as text. Which runs go into which plot is board.cpp's.
//
// Sizes are in user units that come out near CSS pixels: plots are laid in columns about as wide as a phone's page, so
// that one drawing is readable on both. Places depend on the data alone.
#pragma once

#include <string>
#include <vector>

#include "measure/board_data.h"

namespace quern::measure::board {

// What of a peer's command is a choice and not the test itself: "--repack 0" of
// "llama-bench -m x.gguf -p 512 -n 0 -r 1 --repack 0".
std::string peer_setting(const std::string& command);
// The peer's name and setting.
std::string peer_label(const Program& peer);
// The CSS class that colours a peer; also the order of peers.
const char* peer_class(const std::string& name);

// Quern over each peer: a bar from 0, the 95 % interval, a dot for each pair. Runs without a ratio are left out; "" for
// no run with one.
std::string ratio_plot(const std::vector<const Run*>& runs, const std::string& title);

// The runs of one test: Quern and peer as bars (medians), each sample as a dot, the 95 % interval of their mean.
std::string speed_plot(const std::vector<const Run*>& runs, const std::string& title);

// Medians of one test over time, by day and commit; "" for fewer than two points in time.
std::string history_plot(const std::vector<const Run*>& runs, const std::string& title);

// What a bucket could reach at most under these roofs: the smaller of the int8 peak and memory rate times intensity.
// 0 where it moves no bytes, multiplies nothing, or the roofs are not known.
double attainable_gmac_s(const Bucket& bucket, const Roofs& roofs);

// colors: for each bucket of the profile the number of its colour, 0 to kBucketColors - 1.
inline constexpr int kBucketColors = 8;
std::string roofline_plot(const Roofs& roofs, const PhaseProfile& profile, const std::vector<int>& colors,
                          const std::string& title);

// One full-width bar a phase, cut into the shares of its buckets.
struct PhaseBar {
  const PhaseProfile* profile;
  std::vector<int> colors;  // as above
};
std::string bucket_plot(const std::vector<PhaseBar>& phases, const std::string& title);

}  // namespace quern::measure::board
