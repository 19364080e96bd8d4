/**
 * A company's network: git repos and a registry of packages behind HTTPS, which are reached through its proxy alone.
 * Runs in a network namespace of its own. Its argument is a directory with `key.pem` and `cert.pem`, the repos in
 * `git` and the answers of the registry in `npm`. Writes a line when it is ready, and one for each connection that the
 * proxy makes.
 */
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { type AddressInfo, connect } from "node:net"
import { join } from "node:path"
import { answerByGit } from "../asks/git-backend.ts"

const [directory = "", proxyPort = ""] = process.argv.slice(2)
const read = (name: string) => readFileSync(join(directory, name))

const answerAsRegistry = ({ url = "" }: IncomingMessage, response: ServerResponse) => {
  const file = url.endsWith(".tgz") ? "npm/package.tgz" : "npm/package.json"
  if (!url.startsWith("/company-greeting")) response.writeHead(404).end()
  else response.end(read(file))
}

const tls = { key: read("key.pem"), cert: read("cert.pem") }
const server = createTlsServer(tls, (request, response) => {
  if (request.headers.host === "git.company.test")
    answerByGit(join(directory, "git"), request, response)
  else answerAsRegistry(request, response)
}).listen(0, "127.0.0.1")
await once(server, "listening")
const { port } = server.address() as AddressInfo

const proxy = createServer((_, response) => response.writeHead(403).end())
proxy.on("connect", ({ url = "" }: IncomingMessage, client) => {
  console.log(url)
  client.on("error", () => {})
  if (!/^(git|npm)\.company\.test:443$/.test(url)) {
    client.end("HTTP/1.1 403 Forbidden\r\n\r\n")
    return
  }
  const upstream = connect(port, "127.0.0.1", () => {
    client.write("HTTP/1.1 200 Connection established\r\n\r\n")
    client.pipe(upstream).pipe(client)
  })
  upstream.on("error", () => client.destroy())
  client.on("close", () => upstream.destroy())
})
proxy.listen(Number(proxyPort), "0.0.0.0")
await once(proxy, "listening")
process.stdin.on("end", () => process.exit()).resume()
console.log("ready")
