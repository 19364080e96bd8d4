/**
 * Works with the files of a sandbox, as its user: this process can see and do no more than that user. It serves HTTP on
 * the socket that it inherits as descriptor 3, and ends when its standard input does.
 */
import { createServer } from "node:http"
import { Dispatch } from "../features/dispatch.ts"
import { becomeUser } from "../processes/own-program.ts"
import { fileRoutes, watchRoute } from "./work/routes.ts"

const LISTEN_FD = 3

const { user, ...parts } = JSON.parse(process.argv[2] ?? "")
// Called first, as the worker starts with the supervisor's rights.
if (user !== undefined) becomeUser(user)
// The umask of a user's shell, whatever the supervisor runs with.
process.umask(0o022)
const routes = [...fileRoutes(parts), watchRoute(parts)]
const dispatch = new Dispatch({
  files: async () => ({ http: routes, sockets: [], close: async () => {} }),
})
const server = createServer((request, response) => void dispatch.answer(request, response))
// A body may take as long as its sender needs.
server.requestTimeout = 0
// Only the supervisor closes connections, so that it never uses one that is just being closed.
server.keepAliveTimeout = 0
server.listen({ fd: LISTEN_FD })
process.stdin.on("end", () => process.exit()).resume()
