/**
 * An attacked server for a program that measures it: says "ready" when the attack has begun. Each line on its input is
 * the number of milliseconds for which to query the server's health; the answer is one line of JSON with the
 * samples. It ends with its input.
 */
import { createInterface } from "node:readline"
import { openAttackedServer } from "./attack.ts"

const server = await openAttackedServer()
try {
  await server.attack()
  console.log("ready")
  for await (const line of createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await server.query(Number(line))))
} finally {
  await server.close()
}
