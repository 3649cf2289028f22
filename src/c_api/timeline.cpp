// Timelines.
#include "c_api/guard.hpp"
#include "kolo/kolo.h"

using namespace kolo::c_api;
using kolo::Timeline;

kolo_status kolo_timeline_create(size_t capacity, kolo_timeline** timeline) {
  return make_handle(__func__, timeline, [&] {
    return capacity == 0 ? std::make_shared<Timeline>() : std::make_shared<Timeline>(capacity);
  });
}
kolo_status kolo_timeline_span(kolo_timeline* timeline, const char* name, const char* track, int64_t begin_ns,
                               int64_t end_ns, const char* arguments) {
  return guarded(__func__, [&] {
    known(timeline)->span(text_or_empty(name), text_or_empty(track), Timeline::TimePoint(time_of(begin_ns)),
                          Timeline::TimePoint(time_of(end_ns)), text_or_empty(arguments));
  });
}
kolo_status kolo_timeline_pause(kolo_timeline* timeline, int paused) {
  return guarded(__func__, [&] { known(timeline)->pause(paused != 0); });
}
size_t kolo_timeline_size(const kolo_timeline* timeline) {
  return value_of<size_t>(__func__, 0, [&] { return known(timeline)->size(); });
}
size_t kolo_timeline_dropped(const kolo_timeline* timeline) {
  return value_of<size_t>(__func__, 0, [&] { return known(timeline)->dropped(); });
}
int64_t kolo_timeline_first_begin(const kolo_timeline* timeline) {
  return value_of<int64_t>(__func__, -1,
                           [&] { return known(timeline)->first_begin().time_since_epoch().count(); });
}
int64_t kolo_timeline_wall_clock(const kolo_timeline* timeline) {
  return value_of<int64_t>(__func__, -1, [&] { return known(timeline)->wall_clock().count(); });
}
const char* kolo_timeline_chrome_events(const kolo_timeline* timeline, int rank, const char* host,
                                        int64_t shift_ns) {
  return text_of(__func__, [&] {
    return known(timeline)->chrome_events(rank, text_or_empty(host), std::chrono::nanoseconds(shift_ns));
  });
}
kolo_status kolo_timeline_write(const kolo_timeline* timeline, const char* path, int rank, const char* host,
                                const char* group) {
  return guarded(__func__, [&] {
    known(timeline)->write(&given(path, "the path"), rank, text_or_empty(host), text_or_empty(group));
  });
}
kolo_status kolo_write_timeline(kolo_communicator* communicator, const kolo_timeline* timeline,
                                const char* path) {
  return guarded(__func__, [&] {
    kolo::write_timeline(known(communicator), *known(timeline), &given(path, "the path"));
  });
}
