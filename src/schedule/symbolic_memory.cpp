#include "schedule/symbolic_memory.hpp"

#include <algorithm>

namespace kolo::schedule {

namespace {

/// Whether two neighbouring pieces can be merged, which makes the symbolic run of long ranges fast.
bool continues(const Piece& left, const Piece& right) {
  return left.who == right.who && left.writer == right.writer && left.origin + left.length == right.origin;
}

}  // namespace

void SymbolicMemory::split(std::uint64_t at) {
  auto found = pieces_.lower_bound(at);
  if (found == pieces_.begin()) return;
  --found;
  Piece& left = found->second;
  if (found->first + left.length <= at) return;
  Piece right = left;
  left.length = at - found->first;
  right.length -= left.length;
  right.origin += left.length;
  pieces_.emplace(at, right);
}

void SymbolicMemory::write(std::uint64_t offset, std::span<const Piece> pieces) {
  std::uint64_t end = offset;
  for (const Piece& piece : pieces) end += piece.length;
  split(offset);
  split(end);
  pieces_.erase(pieces_.lower_bound(offset), pieces_.lower_bound(end));
  for (const Piece& piece : pieces) {
    if (piece.length > 0) pieces_.emplace(offset, piece);
    offset += piece.length;
  }
}

bool SymbolicMemory::read(std::uint64_t offset, std::uint64_t length, std::vector<Piece>& out) const {
  if (length == 0) return true;
  auto at = pieces_.upper_bound(offset);
  if (at == pieces_.begin()) return false;
  --at;
  while (length > 0) {
    if (at == pieces_.end() || at->first > offset || at->first + at->second.length <= offset) return false;
    Piece piece = at->second;
    const std::uint64_t skipped = offset - at->first;
    piece.origin += skipped;
    piece.length = std::min(piece.length - skipped, length);
    if (!out.empty() && continues(out.back(), piece)) {
      out.back().length += piece.length;
    } else {
      out.push_back(piece);
    }
    offset += piece.length;
    length -= piece.length;
    ++at;
  }
  return true;
}

}  // namespace kolo::schedule
