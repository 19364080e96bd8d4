/** A supervisor that runs commands, in a process of its own. `GET /peak` returns the most memory that it took. */
import { createServer } from "node:http"
import { join } from "node:path"
import { WebSocketServer } from "ws"
import { ActivityTracker } from "../../features/activity-tracker.ts"
import { Dispatch } from "../../features/dispatch.ts"
import { systemClock } from "../../processes/clock.ts"
import { Pipes } from "../../processes/output/pipes.ts"
import { ProcessSet } from "../../processes/set.ts"
import { commandsFeature } from "../feature.ts"

const [directory = ""] = process.argv.slice(2)
const clock = systemClock
const pipes = new Pipes(directory)
const dispatch = new Dispatch({
  commands: async () =>
    commandsFeature(
      {
        clock,
        pipes,
        processes: new ProcessSet({ clock, pipes }),
        user: undefined,
        places: { workspace: directory, home: directory, toolbox: directory, logs: directory },
        environment: { PATH: "/usr/bin:/bin" },
      },
      new ActivityTracker(),
    ),
})
const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
const server = createServer((request, response) => {
  if (request.url === "/peak") response.end(String(process.resourceUsage().maxRSS * 1024))
  else void dispatch.answer(request, response)
})
server.on("upgrade", (request, socket, head) => {
  void dispatch
    .open(request.url ?? "")
    .then((take) => webSockets.handleUpgrade(request, socket, head, take))
})
server.listen(join(directory, "socket"), 2_000, () => console.log("listening"))
process.stdin.on("end", () => void dispatch.close().then(() => process.exit()))
process.stdin.resume()
