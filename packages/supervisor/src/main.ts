import { createServer } from "node:http"

const [, , socket] = process.argv
if (socket === undefined) throw new Error("usage: supervisor SOCKET")

const server = createServer((request, response) => {
  if (request.method === "GET" && request.url === "/health") {
    response.setHeader("content-type", "application/json").end('{"status":"ok"}')
  } else {
    response.writeHead(404).end()
  }
})

process.once("SIGTERM", () => {
  server.close()
  server.closeAllConnections()
})
server.listen(socket)
