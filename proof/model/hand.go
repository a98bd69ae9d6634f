package model

import "github.com/seawall-go/seawall"

// What has nothing to do with results: calls that are given up before they ask, modes, and the operator's hand.

// Cancelled is a call whose context is done before it asks.
func (m Breaker) Cancelled() Breaker {
	switch m.mode {
	case seawall.Enforce:
		return m.write(cancelled)
	case seawall.Observe:
		return m.write(wouldReject)
	case seawall.Off:
	}
	return m
}

// ForceOpen opens by hand; a breaker that is forced open stays as it is.
func (m Breaker) ForceOpen() Breaker {
	if m = m.note(); m.forced() {
		return m
	}
	return m.edge(seawall.Open, seawall.ReasonForced, m.recount(), verdict{})
}

// Reset closes by hand; a closed breaker without counts stays as it is.
func (m Breaker) Reset() Breaker {
	m = m.note()
	c := m.recount()
	if m.last().to == seawall.Closed && c == (counts{}) {
		return m
	}
	return m.edge(seawall.Closed, seawall.ReasonReset, c, verdict{})
}

// SetMode changes the mode. To and from Off all begins anew.
func (m Breaker) SetMode(mode seawall.Mode) Breaker {
	was := m.mode
	m.mode = mode
	if was == mode || was != seawall.Off && mode != seawall.Off {
		return m
	}
	m = m.note()
	return m.edge(seawall.Closed, seawall.ReasonModeChanged, m.recount(), verdict{})
}
