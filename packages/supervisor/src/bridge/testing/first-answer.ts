/** Serves a socket as the supervisor does, answers one request, and prints the modules that were loaded until then. */
import { registerHooks } from "node:module"

// Node's own modules are in its snapshot. Modules that are imported by name pass here.
const loaded = new Set<string>()
registerHooks({
  load: (url, context, next) => {
    loaded.add(
      url.includes("node_modules/")
        ? (url.split("node_modules/").at(-1)?.split("/")[0] ?? "")
        : url,
    )
    return next(url, context)
  },
})

const [, , path = ""] = process.argv
const { request } = await import("node:http")
const { serveBridge } = await import("../serve.ts")
await import("../../run.ts")
const server = await serveBridge({
  listen: [{ path }],
  token: "a-token-for-tests-0123456789abcdefghijkl",
  sandbox: "sb-00000000000000000000" as never,
  health: () => ({ ready: false, prompts: 0 }),
  boot: () => null,
  inside: new Promise(() => {}),
  onFault: () => {},
})
const headers = { authorization: "Bearer a-token-for-tests-0123456789abcdefghijkl" }
request({ socketPath: path, path: "/health", headers, agent: false }, (response) => {
  response.resume().on("end", () => {
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`)
    console.log(JSON.stringify([...loaded]))
    void server.close()
  })
}).end()
