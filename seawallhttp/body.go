package seawallhttp

import (
	"errors"
	"io"
	"net/http"
)

// body is a response's body that ends its call with its own end: EOF, another error, or Close. Read and Close may run at
// the same time, as for the body of every client.
type body struct {
	io.ReadCloser
	call *call
	resp *http.Response
}

// watch returns resp's body, watched. It keeps what the body of a 101 can do beyond reading: that is a connection.
func (c *call) watch(resp *http.Response) io.ReadCloser {
	c.body = body{ReadCloser: resp.Body, call: c, resp: resp}
	if w, ok := resp.Body.(io.Writer); ok {
		return &duplexBody{body: &c.body, Writer: w}
	}
	return &c.body
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *body) end(err error) {
	defer b.call.release()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	b.call.judgeBody(b.resp, err)
}

// Close settles the call before it closes the inner body, for that makes a Read under way fail, which is nobody's fault;
// and it frees the slot after that.
func (b *body) Close() (err error) {
	defer b.call.release()
	defer func() { err = b.ReadCloser.Close() }() // Also if a hook of the breaker's panics.
	b.call.judgeBody(b.resp, nil)
	return nil
}

// duplexBody is the body of a 101 response.
type duplexBody struct {
	*body
	io.Writer
}

// CloseWrite tells the other side that nothing more will be written, if the inner body can do so. As in net/http, it is
// there also if not.
func (d *duplexBody) CloseWrite() error {
	if w, ok := d.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}
