/**
 * Git's credential helper: `credential-helper SOCKET get|store|erase`. Passes git's question to the supervisor and
 * prints the answer. There is nothing to store or erase, as the server is asked each time.
 */
import { connect } from "node:net"
import { text } from "node:stream/consumers"

/** Time limit, above all deadlines of the supervisor and the server. */
const ANSWER_DEADLINE_MS = 90_000

interface Reply {
  readonly username?: string
  readonly password?: string
  readonly refused?: string
}

const answer = async (path: string): Promise<void> => {
  const question = await text(process.stdin)
  const socket = connect(path)
  socket.setTimeout(ANSWER_DEADLINE_MS, () => socket.destroy(new Error("it does not answer")))
  socket.end(question)
  const { username, password, refused }: Reply = JSON.parse(await text(socket))
  if (username === undefined || password === undefined) throw new Error(refused)
  process.stdout.write(`username=${username}\npassword=${password}\n`)
}

const [, , path = "", operation] = process.argv
if (operation === "get")
  answer(path).catch((thrown: Error) => {
    // Git continues without credentials, and shows this beside its own message.
    process.stderr.write(`berth: no credentials: ${thrown.message}\n`)
    process.exitCode = 1
  })
