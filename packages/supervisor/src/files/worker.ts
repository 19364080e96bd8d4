/**
 * Works with the files of a sandbox, as its user: what that user may not see or do, this process cannot either.
 * It serves HTTP on the socket that it is given as descriptor 3, and ends when its standard input does.
 */
import { createServer } from "node:http"
import { Dispatch } from "../features/dispatch.ts"
import { becomeUser } from "../processes/own-program.ts"
import { fileRoutes, watchRoute } from "./work/routes.ts"

const LISTEN_FD = 3

const { user, ...parts } = JSON.parse(process.argv[2] ?? "")
// Before it does anything: it starts with the supervisor's rights.
if (user !== undefined) becomeUser(user)
// As a user's shell has it, whatever the supervisor runs with.
process.umask(0o022)
const routes = [...fileRoutes(parts), watchRoute(parts)]
const dispatch = new Dispatch({
  files: async () => ({ http: routes, sockets: [], close: async () => {} }),
})
const server = createServer((request, response) => void dispatch.answer(request, response))
// A body takes as long as whoever sends it.
server.requestTimeout = 0
// It is the supervisor that closes connections: it must not use one that is just being closed.
server.keepAliveTimeout = 0
server.listen({ fd: LISTEN_FD })
process.stdin.on("end", () => process.exit()).resume()
