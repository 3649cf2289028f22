#include "schedule/hazards.hpp"

namespace kolo::schedule {

void HazardTracker::visit(std::uint32_t id, const Step& step, std::vector<std::uint32_t>& waits_for) {
  if (map_.is_idle(step)) return;
  const Footprint touched = footprint(step);
  for (const ChunkRange& read : touched.reads) {
    const std::uint32_t first = map_.first_cell(read);
    for (std::uint32_t c = first; c < first + read.count; ++c) {
      if (cells_[c].writer != kNoStep) waits_for.push_back(cells_[c].writer);
      cells_[c].readers.push_back(id);
    }
  }
  const std::uint32_t first = map_.first_cell(touched.write);
  for (std::uint32_t c = first; c < first + touched.write.count; ++c) {
    Cell& cell = cells_[c];
    bool read_since = false;
    for (const std::uint32_t reader : cell.readers) {
      if (reader == id) continue;
      waits_for.push_back(reader);
      read_since = true;
    }
    if (!read_since && cell.writer != kNoStep) waits_for.push_back(cell.writer);
    cell.writer = id;
    cell.readers.clear();
  }
}

}  // namespace kolo::schedule
