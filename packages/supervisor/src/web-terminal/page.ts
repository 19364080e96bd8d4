/** The only page. Its script and style are files beside it, so that injected code does not run. */
export const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Terminal</title>
<link rel="stylesheet" href="xterm.css">
<style>html, body, #screen { margin: 0; height: 100%; background: #000 }</style>
<div id="screen"></div>
<script src="xterm.js"></script>
<script src="page.js"></script>
</html>
`

/** The page's script. After a terminal has ended, the next key opens another. */
export const PAGE_PROGRAM = `"use strict"
const screen = document.getElementById("screen")
const terminal = new Terminal({ cursorBlink: true, scrollback: 10000 })
terminal.open(screen)
let socket
const send = (data) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(data)
}
const fit = () => {
  const cells = screen.querySelector(".xterm-screen")
  const width = cells.clientWidth / terminal.cols
  const height = cells.clientHeight / terminal.rows
  if (!(width > 0 && height > 0)) return
  const fitting = (room, cell) => Math.min(1000, Math.max(2, Math.floor(room / cell)))
  terminal.resize(fitting(screen.clientWidth - 16, width), fitting(screen.clientHeight, height))
}
const connect = () => {
  const url = new URL("terminal", location.href)
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:"
  socket = new WebSocket(url)
  socket.binaryType = "arraybuffer"
  socket.onopen = () => send(terminal.cols + "x" + terminal.rows)
  socket.onmessage = ({ data }) => terminal.write(new Uint8Array(data))
  socket.onclose = ({ reason }) =>
    terminal.write("\\r\\n[" + (reason || "the connection ended") + "; press a key for a new shell]\\r\\n")
}
const encoder = new TextEncoder()
terminal.onData((text) => {
  if (socket.readyState === WebSocket.CLOSED) {
    terminal.reset()
    connect()
  } else send(encoder.encode(text))
})
terminal.onResize(({ cols, rows }) => send(cols + "x" + rows))
addEventListener("resize", fit)
fit()
connect()
terminal.focus()
`
