#include "base/cgroups.hpp"
#include "base/text_reader.hpp"

#include <fstream>
#include <string>

namespace kolo {

void for_each_cgroup(const std::string& membership, const std::string& mount, std::string_view controller,
                     const std::function<void(const std::string&)>& visit) {
  const std::string name(controller);
  // In a container the path may be that outside the container: then the mount itself is the group.
  const auto visit_all = [&](std::string here, const std::string& group) {
    visit(here);
    TextReader parts(group);
    for (std::string part; std::getline(parts, part, '/');) {
      if (!part.empty()) visit(here.append("/").append(part));
    }
  };
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "3:cpu,cpuacct:/a/b" or, in version 2, "0::/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* usual : {"", "/unified"}) visit_all(mount + usual, group);
    } else if (("," + controllers + ",").find("," + name + ",") != std::string::npos) {
      visit_all(mount + "/" + name, group);
      if (controllers != name) visit_all(mount + "/" + controllers, group);
    }
  }
}

}  // namespace kolo
